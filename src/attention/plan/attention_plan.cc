// plan() and its siblings: report the schedules that the passes follow, with their counts, and remark why a call is not
// the fastest possible.
#include "qkv/attention/attention_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "attention/backward/backward_call.h"
#include "attention/call/attention_call.h"
#include "attention/call/output_kinds.h"
#include "attention/call/view_checks.h"
#include "attention/forward/forward_schedule.h"
#include "attention/options/compiled_mask.h"
#include "attention/tile/interval_masks.h"
#include "core/mathematics.h"
#include "qkv/stop.h"
#include "qkv/target.h"
#include "simd/dispatch.h"

namespace qkv {
namespace {

void remark_on_table(AttentionPlan& plan, RelativeTable::Kind kind) {
  switch (kind) {
    case RelativeTable::Kind::clipped:
    case RelativeTable::Kind::t5:
      return plan.remarks.push_back("a table of relative positions is added to the logits: about 1.06 times the time");
    case RelativeTable::Kind::swin:
      return plan.remarks.push_back("a Swin table is looked up for each logit: about 1.25 times the time");
    case RelativeTable::Kind::shaw:
      return plan.remarks.push_back(
          "Shaw's table multiplies each query with the rows within its reach: 1.2 times the time for a reach of 16 "
          "keys, 2.8 times for 511");
  }
}

bool has_scattered_documents(const AttentionCall& call) {
  for (std::int64_t b = 0; b < call.batch; ++b) {
    if (call.task(b, 0).key_documents != nullptr) return true;
  }
  return false;
}

void remark_on_target(AttentionPlan& plan) {
  const std::vector<Target> all = targets();
  const auto best = std::find_if(all.begin(), all.end(), [](const Target& target) { return target.usable; });
  if (best == all.end() || best->name == plan.target) return;
  plan.remarks.push_back(fmt::format("target {} is selected, this CPU could run {}", plan.target, best->name));
}

// `allowed`: threads that the memory limit leaves of those `asked` for.
void remark_on_threads(AttentionPlan& plan, int allowed, int asked) {
  if (allowed < asked) {
    plan.remarks.push_back(fmt::format("memory_limit allows {} of {} threads", allowed, asked));
  } else if (plan.threads < allowed) {
    plan.remarks.push_back(fmt::format("there is work for {} of {} threads", plan.threads, allowed));
  }
}

// What every pass spends on the options, with the times that docs/lab/attention_forward.md measures.
void remark_on_options(AttentionPlan& plan, const AttentionCall& call, const AttentionOptions& options) {
  const auto add = [&](std::string line) { plan.remarks.push_back(std::move(line)); };
  const AttentionTask task = call.task(0, 0);
  if (!is_dot_product(task.common->score)) {
    add("no dedicated kernel for this score: queries and keys are projected first");
  }
  if (task.common->soft_cap != 0) add("soft cap: a hyperbolic tangent for each logit");
  if (task.common->bias_count > 0) add("a bias is read element by element and added: about 1.3 times the time");
  if (!options.bias.alibi_slopes().empty()) {
    add("ALiBi adds a slope times the distance to each logit: about 1.4 times the time");
  }
  for (const RelativeTable& table : options.bias.tables()) remark_on_table(plan, table.kind());
  if (options.logit_function) {
    add("a logit function is called for each pair: 1.0 to 4.3 times the time, by what it computes");
  }
  if (task.common->dropout.is_on()) add("dropout draws random bits for each pair: about 1.1 times the time");
  if (task.common->boolean_count > 0) add("a boolean mask is read once, for 16 queries and 8 keys at a time");
  if (task.common->mask_function_count > 0) add("a mask function is called for each pair: about 1.4 times the time");
  if (task.common->step > 1)
    add("a dilated window computes whole tiles: keys between its steps cost as much as visible ones");
  if (has_scattered_documents(call)) {
    add("documents whose keys are scattered are compared key by key: up to 1.5 times the time of contiguous documents");
  }
  const bool half = call.storage == Dtype::bf16 || call.storage == Dtype::f16;
  if (half && plan.precision == Precision::exact) {
    const bool prefill = plan.kernel.starts_with("prefill");
    if (prefill && task.product == BlockProduct::tiles) {
      add(fmt::format("{} is multiplied by tiles, in pieces of bf16 where that is exact", name_of(call.storage)));
    } else {
      const bool pairs = (prefill || plan.kernel == "decode") && task.product == BlockProduct::pairs;
      add(fmt::format("{} is widened to f32{}", name_of(call.storage),
                      pairs ? ", but for the exact product of queries and keys" : ""));
    }
  }
  if (call.storage == Dtype::f64) add("f64 halves the numbers in a vector");
}

// Precision, blocks that are not full, and what is asked for besides the output.
void remark_on_forward(AttentionPlan& plan, const AttentionCall& call, const AttentionSchedule& schedule,
                       const AttentionOptions& options, const AttentionExtras& extras) {
  const auto add = [&](std::string line) { plan.remarks.push_back(std::move(line)); };
  if (options.precision != Precision::exact) {
    const std::string reason = why_not_reduced(call, options);
    const std::string precision = fmt::format("precision {}", name_of(options.precision));
    if (!reason.empty()) {
      add(precision + " is computed exactly: " + reason);
    } else if (!schedule.single_queries.empty()) {
      add(precision + ": single queries are computed exactly; memory limits them, not products");
    }
  }
  const std::int64_t together = schedule.folded.together(call.q_len);
  if (together > 1) add(fmt::format("the queries of {} heads share a block", together));
  const bool prefill = !schedule.prefills.empty();
  if (prefill && together * call.q_len < schedule.block.blocks.queries) {
    add(fmt::format("{} queries do not fill a block of {}", together * call.q_len, schedule.block.blocks.queries));
  }
  const auto is_asked = [&](const OutputDescription& kind) { return static_cast<bool>(extras.*kind.view); };
  const auto list = attention_outputs();
  const bool second_pass = std::ranges::any_of(
      list, [&](const OutputDescription& kind) { return is_asked(kind) && kind.needs_second_pass; });
  if (second_pass) add("the requested optional outputs need a second pass over the keys");
  const bool are_whole = prefill && call.k_len > kChunkKeys && plan.threads < schedule.allowed_threads;
  if (are_whole && second_pass) {
    add("they also keep keys from being split over threads");
  } else if (are_whole) {
    const auto first =
        std::ranges::find_if(list, [&](const OutputDescription& kind) { return is_asked(kind) && kind.is_statistic; });
    if (first != list.end()) add(fmt::format("{} keeps keys from being split over threads", first->name));
  }
  if (!schedule.chosen_blocks.empty()) add("chosen rows are computed again, with those near them");
}

// Whether one of the queries begin <= i < end sees one of the 8 keys from `key` on, as far as blocks of booleans tell.
bool sees_block(const AttentionTask& task, std::int64_t begin, std::int64_t end, std::int64_t key) {
  const std::int64_t word = key / BooleanBlocks::kWordKeys, bit = key / BooleanBlocks::kKeys % 64;
  for (std::int64_t group = begin / BooleanBlocks::kQueries; group * BooleanBlocks::kQueries < end; ++group) {
    bool some = true;
    for (int p = 0; p < task.common->boolean_count; ++p) {
      const PlaneBlocks& blocks = task.boolean_blocks[p];
      some = some && (blocks.some == nullptr || (blocks.some[group * blocks.group_step + word] >> bit & 1) != 0);
    }
    if (some) return true;
  }
  return false;
}

// Whether the step lets one of the queries see one of `tile` keys.
bool sees_by_step(const AttentionTask& task, std::int64_t begin, std::int64_t end, std::int64_t key,
                  std::int64_t tile) {
  const std::int64_t last_key = std::min(key + tile, task.k_len) - 1;
  const std::int64_t least = begin + task.offset - last_key, most = end - 1 + task.offset - key;
  const std::int64_t whole = most - most % task.common->step;  // the multiple next to it, towards 0
  return (whole <= most ? whole : whole - task.common->step) >= least;
}

// How a pass goes through queries and keys.
struct Walk {
  QueryBlocks blocks;
  std::int64_t tile_keys = 0;
  FoldedHeads folded{};         // heads that share a block
  bool single_queries = false;  // single queries, by chunks
  bool skips_hidden = true;     // tiles of which intervals leave something and booleans or a step nothing
  double numbers = 0;           // of rows that a pair of a query and a key multiplies
};

// Of `heads` heads, in `blocks` blocks of these queries. Prefill computes whole tiles (but the last) in which one of
// the queries sees a key; a single query exactly the keys from the first to the last one.
void count_tiles(AttentionPlan& plan, const Walk& walk, const AttentionTask& task, std::int64_t heads,
                 std::int64_t blocks, std::int64_t begin, std::int64_t end, bool single_query) {
  const KeyRange keys = keys_of_queries(task, begin, end);
  const std::int64_t tile = single_query ? kChunkKeys : walk.tile_keys;
  const std::int64_t first = keys.first / tile * tile, all = divide_up(task.k_len, tile);
  std::int64_t tiles = keys.first == keys.last ? 0 : divide_up(keys.last - first, tile);
  std::int64_t visited = single_query ? keys.last - keys.first : std::min(tiles * tile, task.k_len - first);
  if ((task.common->boolean_count > 0 || task.common->step > 1) && walk.skips_hidden && !single_query) {
    for (std::int64_t key = first; key < keys.last; key += tile) {
      if (sees_block(task, begin, end, key) && sees_by_step(task, begin, end, key, tile)) continue;
      --tiles;
      visited -= std::min(tile, task.k_len - key);
    }
  }
  plan.tiles += blocks * all;
  plan.skipped_tiles += blocks * (all - tiles);
  const std::int64_t pairs = tiles == 0 ? 0 : (end - begin) * visited;
  plan.operations += 2.0 * walk.numbers * static_cast<double>(heads) * static_cast<double>(pairs);
}

void count_sequence(AttentionPlan& plan, const Walk& walk, const AttentionTask& task, std::int64_t heads,
                    std::int64_t blocks) {
  for (std::int64_t begin = 0, end; begin < task.q_len; begin = end) {
    end = walk.blocks.end_of(begin, task.q_len);
    count_tiles(plan, walk, task, heads, blocks, begin, end, false);
  }
}

void count(AttentionPlan& plan, const Walk& walk, const AttentionCall& call) {
  for (std::int64_t b = 0; b < call.batch; ++b) {
    const AttentionTask task = call.task(b, 0);
    const std::int64_t together = walk.folded.together(task.q_len);
    if (walk.single_queries && call.is_single_query(b)) {
      count_tiles(plan, walk, task, call.heads, call.heads, 0, 1, true);
    } else if (task.common->boolean_count > 0 && together == 1) {  // booleans may tell heads apart
      for (std::int64_t h = 0; h < call.heads; ++h) count_sequence(plan, walk, call.task(b, h), 1, 1);
    } else {
      const std::int64_t blocks = call.kv_heads * divide_up(call.heads / call.kv_heads, together);
      count_sequence(plan, walk, task, call.heads, blocks);
    }
  }
}

double bytes_of(std::initializer_list<TensorView> views) {
  double bytes = 0;
  for (const TensorView& view : views) {
    bytes += view ? static_cast<double>(view.element_count()) * static_cast<double>(size_of(view.dtype())) : 0;
  }
  return bytes;
}

// Of the keys and values that sequences have, paged or not, and of queries and outputs.
double forward_bytes(const AttentionCall& call, Dtype out) {
  double numbers = 0, out_numbers = 0;
  const auto product = [](std::int64_t x, std::int64_t y) { return static_cast<double>(x) * static_cast<double>(y); };
  for (std::int64_t b = 0; b < call.batch; ++b) {
    const std::int64_t queries = call.query_length(b), keys = call.key_length(b);
    numbers += product(call.heads, queries * call.query_dim);
    numbers += product(call.kv_heads, keys * (call.key_dim + call.value_dim));
    out_numbers += product(call.heads, queries * call.value_dim);
  }
  return numbers * static_cast<double>(size_of(call.storage)) + out_numbers * static_cast<double>(size_of(out));
}

// A view of each row of queries, of `size` numbers; 0: of one number.
MutableTensorView place_of_queries(const TensorView& q, Dtype dtype, std::int64_t size) {
  Dims shape = q.shape();
  if (size > 0) {
    shape[shape.size() - 1] = size;
  } else {
    shape = q.select(-1, 0).shape();
  }
  return {unallocated(), dtype, shape};
}

// The products of a tile of tangents, and of one of gradients.
double tangent_numbers(const AttentionCall& call, const AttentionTangents& tangents) {
  const auto key_dim = static_cast<double>(call.key_dim), value_dim = static_cast<double>(call.value_dim);
  return key_dim * (1 + (tangents.query ? 1 : 0) + (tangents.key ? 1 : 0)) + value_dim * (tangents.value ? 2 : 1);
}

double gradient_numbers(const AttentionCall& call) {
  return 3.0 * static_cast<double>(call.key_dim) + 2.0 * static_cast<double>(call.value_dim);
}

// The plan of a pass over derivatives, whose arrays are places alone.
class DerivativePlan {
 public:
  DerivativePlan(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options)
      : call(with_address(q), with_address(k), with_address(v), options),
        arena(Arena::dry(call.memory())),
        options_(options) {
    const MutableTensorView out = place_of_queries(with_address(q), call.storage, call.value_dim);
    inputs = {with_address(q), with_address(k), with_address(v), out, place_of_queries(q, call.accumulation, 0), out};
  }

  // What was scheduled, of which a pair of a query and a key multiplies so many numbers. Tangents are not cut into
  // chunks of keys, nor spared what arrays hide.
  template <class Schedule>
  void add(const Schedule& schedule, double numbers) {
    constexpr bool is_jvp = std::is_same_v<Schedule, JvpSchedule>;
    plan_.threads = std::max(plan_.threads, schedule.threads);
    plan_.block_queries = schedule.kernel.block_queries;
    allowed_threads_ = schedule.allowed_threads;
    if (is_empty()) return;
    const Walk walk{.blocks = {.queries = plan_.block_queries},
                    .tile_keys = plan_forward(call.longest(call.q_len)).tile_keys,
                    .skips_hidden = !is_jvp,
                    .numbers = numbers};
    plan_.tile_keys = walk.tile_keys;
    if (!is_jvp) plan_.chunk_keys = kChunkKeys;
    count(plan_, walk, call);
  }

  // `views`: that it reads and writes besides queries, keys, values, outputs and their log-sum-exp.
  AttentionPlan made(const char* kernel, std::initializer_list<TensorView> views) {
    plan_.workspace = static_cast<std::int64_t>(arena.most_with(0));
    if (is_empty()) return plan_;
    plan_.kernel = kernel;
    plan_.bytes = bytes_of(views) + bytes_of({inputs.q, inputs.k, inputs.v, inputs.out, inputs.log_sum_exp});
    remark_on_target(plan_);
    remark_on_threads(plan_, allowed_threads_, call.threads);
    remark_on_options(plan_, call, options_);
    return plan_;
  }

  const AttentionCall call;
  Arena arena;
  BackwardInputs inputs;

 private:
  bool is_empty() const { return call.batch == 0 || call.heads == 0 || call.q_len == 0 || call.k_len == 0; }

  const AttentionOptions& options_;
  AttentionPlan plan_{.kernel = "none", .target = selected_target()};
  int allowed_threads_ = 1;
};

}  // namespace

AttentionPlan plan(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options,
                   const AttentionExtras& extras) {
  ensure_target();
  const StopScope stop(options.stop);
  Dims shape = q.shape();
  if (!shape.empty() && v.rank() > 0) shape[shape.size() - 1] = v.size(-1);
  const AttentionCall call(with_address(q), with_address(k), with_address(v), options,
                           MutableTensorView(unallocated(), q.dtype(), shape), extras);
  const AttentionSchedule schedule(call, extras);
  AttentionPlan plan{.kernel = "none", .target = selected_target()};
  plan.workspace = static_cast<std::int64_t>(schedule.empty ? call.memory().most_with(0) : schedule.workspace());
  if (schedule.empty) return plan;
  const bool has_single = !schedule.single_queries.empty();
  const bool prefill = !schedule.prefills.empty();
  plan.kernel = prefill && has_single ? "prefill and decode" : has_single ? "decode" : "prefill";
  if (schedule.single_queries.size() < static_cast<std::size_t>(call.batch)) plan.precision = call.precision;
  plan.threads = schedule.busy_threads();
  plan.block_queries = prefill ? schedule.block.blocks.queries : 1;
  plan.tile_keys = prefill ? schedule.block.tile_keys : 0;
  plan.chunk_keys = kChunkKeys;
  const Walk walk{.blocks = schedule.block.blocks,
                  .tile_keys = schedule.block.tile_keys,
                  .folded = schedule.folded,
                  .single_queries = true,
                  .numbers = static_cast<double>(call.key_dim + call.value_dim)};
  count(plan, walk, call);
  plan.bytes = forward_bytes(call, q.dtype());
  remark_on_target(plan);
  remark_on_threads(plan, schedule.allowed_threads, call.threads);
  remark_on_forward(plan, call, schedule, options, extras);
  remark_on_options(plan, call, options);
  return plan;
}

AttentionPlan plan_backward(const TensorView& q, const TensorView& k, const TensorView& v,
                            const AttentionOptions& options, const AttentionGradients& gradients) {
  ensure_target();
  const StopScope stop(options.stop);
  check_backward(options, gradients);
  DerivativePlan plan(q, k, v, options);
  plan.add(differentiate(plan.call, plan.inputs, options, gradients, plan.arena), gradient_numbers(plan.call));
  return plan.made("backward", {plan.inputs.grad_out, gradients.query, gradients.key, gradients.value});
}

AttentionPlan plan_jvp(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionTangents& tangents,
                       const AttentionOptions& options, const AttentionOutputTangents& outputs) {
  ensure_target();
  const StopScope stop(options.stop);
  DerivativePlan plan(q, k, v, options);
  require_tangents("attention_jvp", plan.call, options);
  plan.add(JvpSchedule(plan.call, plan.arena), tangent_numbers(plan.call, tangents));
  return plan.made("tangents", {tangents.query, tangents.key, tangents.value, outputs.out, outputs.log_sum_exp});
}

AttentionPlan plan_double_backward(const TensorView& q, const TensorView& k, const TensorView& v,
                                   const AttentionTangents& tangents, const AttentionOptions& options,
                                   const AttentionSecondGradients& gradients) {
  ensure_target();
  const StopScope stop(options.stop);
  DerivativePlan plan(q, k, v, options);
  require_tangents("attention_double_backward", plan.call, options);
  plan.inputs.tangents = {with_address(tangents.query), with_address(tangents.key), with_address(tangents.value)};
  const DoubleBackwardSchedule schedule = differentiate_twice(plan.call, plan.inputs, options, gradients, plan.arena);
  const double of_tangents = tangent_numbers(plan.call, tangents);
  plan.add(schedule.tangents, of_tangents);
  // Gradients: those of a backward pass, and of the tangents once more.
  plan.add(schedule.gradients, gradient_numbers(plan.call) + of_tangents - static_cast<double>(plan.call.value_dim) +
                                   (tangents.key ? static_cast<double>(plan.call.key_dim) : 0));
  return plan.made("double backward", {plan.inputs.grad_out, tangents.query, tangents.key, tangents.value,
                                       gradients.query, gradients.key, gradients.value, gradients.grad_out});
}

}  // namespace qkv
