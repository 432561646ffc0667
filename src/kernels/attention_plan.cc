#include "qkv/attention_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/boolean_blocks.h"
#include "kernels/attention_reduced.h"
#include "kernels/attention_schedule.h"
#include "kernels/dispatch.h"
#include "qkv/target.h"

namespace qkv {
namespace {

// Whether one of the queries begin <= i < end sees one of the 8 keys from `key` on, as far as blocks of booleans tell.
bool sees_block(const AttentionTask& task, std::int64_t begin, std::int64_t end, std::int64_t key) {
  const std::int64_t word = key / BooleanBlocks::kWordKeys, bit = key / BooleanBlocks::kKeys % 64;
  for (std::int64_t group = begin / BooleanBlocks::kQueries; group * BooleanBlocks::kQueries < end; ++group) {
    bool some = true;
    for (int p = 0; p < task.boolean_count; ++p) {
      const PlaneBlocks& blocks = task.boolean_blocks[p];
      some = some && (blocks.some == nullptr || (blocks.some[group * blocks.group_step + word] >> bit & 1) != 0);
    }
    if (some) return true;
  }
  return false;
}

// Of `heads` heads, in `blocks` blocks of these queries. Prefill computes whole tiles (but the last) in which one of
// the queries sees a key; decoding exactly the keys from the first to the last one.
void count_tiles(AttentionPlan& plan, const AttentionTask& task, std::int64_t heads, std::int64_t blocks,
                 std::int64_t begin, std::int64_t end, std::int64_t tile) {
  const KeyRange keys = keys_of_queries(task, begin, end);
  const std::int64_t first = keys.first / tile * tile, all = divide_up(task.k_len, tile);
  std::int64_t tiles = keys.first == keys.last ? 0 : divide_up(keys.last - first, tile);
  std::int64_t met = is_decoded(task) ? keys.last - keys.first : std::min(tiles * tile, task.k_len - first);
  if (task.boolean_count > 0 && !is_decoded(task)) {
    for (std::int64_t key = first; key < keys.last; key += tile) {
      if (sees_block(task, begin, end, key)) continue;
      --tiles;
      met -= std::min(tile, task.k_len - key);
    }
  }
  plan.tiles += blocks * all;
  plan.skipped_tiles += blocks * (all - tiles);
  const std::int64_t pairs = tiles == 0 ? 0 : (end - begin) * met;
  plan.operations += 2.0 * static_cast<double>(heads * pairs * (task.key_dim + task.value_dim));
}

void count_sequence(AttentionPlan& plan, const AttentionSchedule& schedule, const AttentionTask& task,
                    std::int64_t heads, std::int64_t blocks) {
  if (is_decoded(task)) return count_tiles(plan, task, heads, heads, 0, 1, kChunkKeys);
  for (std::int64_t begin = 0; begin < task.q_len; begin += schedule.block.block_queries) {
    const std::int64_t end = std::min(begin + schedule.block.block_queries, task.q_len);
    count_tiles(plan, task, heads, blocks, begin, end, schedule.block.tile_keys);
  }
}

void count(AttentionPlan& plan, const AttentionProblem& problem, const AttentionSchedule& schedule, Dtype out) {
  double numbers = 0;
  double out_numbers = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const AttentionTask task = problem.task(b, 0);
    const auto product = [](std::int64_t x, std::int64_t y) { return static_cast<double>(x) * static_cast<double>(y); };
    numbers += product(problem.heads, task.q_len * problem.query_dim);
    numbers += product(problem.kv_heads, task.k_len * (problem.key_dim + problem.value_dim));
    out_numbers += product(problem.heads, task.q_len * problem.value_dim);
    const std::int64_t together = schedule.folded.together(task.q_len);
    if (task.boolean_count > 0 && together == 1) {  // booleans may tell heads apart
      for (std::int64_t h = 0; h < problem.heads; ++h) count_sequence(plan, schedule, problem.task(b, h), 1, 1);
    } else {
      const std::int64_t blocks = problem.kv_heads * divide_up(problem.heads / problem.kv_heads, together);
      count_sequence(plan, schedule, task, problem.heads, blocks);
    }
  }
  plan.bytes =
      numbers * static_cast<double>(size_of(problem.storage)) + out_numbers * static_cast<double>(size_of(out));
}

void remark(AttentionPlan& plan, const AttentionProblem& problem, const AttentionSchedule& schedule,
            const AttentionOptions& options, const AttentionExtras& extras) {
  const auto add = [&](std::string line) { plan.remarks.push_back(std::move(line)); };
  const std::vector<Target> all = targets();
  const auto best = std::find_if(all.begin(), all.end(), [](const Target& target) { return target.usable; });
  if (best != all.end() && best->name != plan.target) {
    add(fmt::format("target {} is selected, this CPU could run {}", plan.target, best->name));
  }
  if (schedule.threads < schedule.asked_threads) {
    add(fmt::format("memory_limit leaves {} of {} threads", schedule.threads, schedule.asked_threads));
  } else if (plan.threads < schedule.threads) {
    add(fmt::format("there is work for {} of {} threads", plan.threads, schedule.threads));
  }
  if (options.precision == Precision::reduced) {
    const std::string reason =
        why_not_reduced(problem.storage, options.score.kind(), problem.key_dim, problem.value_dim);
    if (!reason.empty()) {
      add("precision reduced is computed exactly: " + reason);
    } else if (!schedule.decoded.empty()) {
      add("precision reduced: single queries are computed exactly, they wait for memory and not for products");
    }
  }
  const AttentionTask task = problem.task(0, 0);
  if (!is_dot_product(task.score)) {
    add("this score has no kernel of its own: each query and key go through its parameters first");
  }
  if (task.soft_cap != 0) add("soft cap: a hyperbolic tangent for each logit");
  if (task.bias_count > 0) add("a bias is read element by element and added");
  if (task.boolean_count > 0) {
    add("a boolean mask is read once, for 16 queries and 8 keys at a time");
  }
  const bool half = problem.storage == Dtype::bf16 || problem.storage == Dtype::f16;
  if (half && plan.precision == Precision::exact) {
    add(fmt::format("{} is widened to f32", name_of(problem.storage)));
  }
  if (problem.storage == Dtype::f64) add("f64 halves the numbers in a vector");
  const std::int64_t together = schedule.folded.together(problem.q_len);
  if (together > 1) add(fmt::format("the queries of {} heads share a block", together));
  if (schedule.prefill && together * problem.q_len < schedule.block.block_queries) {
    add(fmt::format("{} queries do not fill a block of {}", together * problem.q_len, schedule.block.block_queries));
  }
  if (schedule.statistics || extras.weights || extras.logits) {
    add("what is asked for besides the output takes a second look at the keys");
    if (schedule.prefill && problem.k_len > kChunkKeys && plan.threads < schedule.threads) {
      add("it also keeps keys from being split over threads");
    }
  }
  if (schedule.sums) add("sums over queries: one thread does all of a head");
}

}  // namespace

AttentionPlan plan(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options,
                   const AttentionExtras& extras) {
  if (compiles_mask(q, options)) return plan(q, k, v, with_compiled_mask(options), extras);
  ensure_target();
  // Addresses are computed, though nothing is read.
  static std::byte anywhere{};
  const auto placed = [](const TensorView& view) {
    return TensorView(view.bytes() == nullptr ? &anywhere : view.bytes(), view.dtype(), view.shape(), view.strides());
  };
  AttentionProblem problem(placed(q), placed(k), placed(v), options);
  Dims shape = q.shape();
  shape[shape.size() - 1] = problem.value_dim;
  problem.set_outputs({&anywhere, q.dtype(), shape}, extras);
  const AttentionSchedule schedule(problem, options, extras);
  AttentionPlan plan{.kernel = "none", .target = selected_target()};
  if (schedule.empty) return plan;
  const bool decodes = !schedule.decoded.empty();
  plan.kernel = schedule.prefill && decodes ? "prefill and decode" : decodes ? "decode" : "prefill";
  if (schedule.decoded.size() < static_cast<std::size_t>(problem.batch)) plan.precision = problem.precision;
  plan.threads = schedule.busy_threads();
  plan.workspace = static_cast<std::int64_t>(schedule.workspace(schedule.threads));
  plan.block_queries = schedule.prefill ? schedule.block.block_queries : 1;
  plan.tile_keys = schedule.prefill ? schedule.block.tile_keys : 0;
  plan.chunk_keys = kChunkKeys;
  count(plan, problem, schedule, q.dtype());
  remark(plan, problem, schedule, options, extras);
  return plan;
}

}  // namespace qkv
