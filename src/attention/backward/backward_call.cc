// Carries out a backward pass: one task per chunk of keys of each key/value head. A task owns the gradients of its keys
// and values; the queries' gradients from different chunks are added in the order of the chunks, whoever computes them.
#include "attention/backward/backward_call.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "attention/call/view_checks.h"
#include "attention/tile/interval_masks.h"
#include "core/mathematics.h"
#include "core/ordered_sum.h"
#include "core/refuse.h"
#include "core/share.h"
#include "core/stop.h"
#include "core/visit_dtype.h"
#include "core/worth_waking.h"
#include "qkv/threads.h"
#include "simd/scratch.h"

namespace qkv::inline attending {
namespace {

class BackwardPass {
 public:
  BackwardPass(const AttentionCall& call, const BackwardInputs& inputs, const AttentionOptions& options,
               const AttentionGradients& gradients, Arena& arena)
      : call_(call),
        score_dim_(options.score.v() ? options.score.v().size(0) : call.query_dim),
        parameters_(call, options, gradients),
        out_(call.query_rows("out", inputs.out, call.value_dim)),
        grad_out_(call.query_rows("grad_out", inputs.grad_out, call.value_dim)),
        log_sum_exp_(call.query_scalars("log_sum_exp", inputs.log_sum_exp)),
        score_v_(gradients.score.v),
        bias_(call, options.bias, gradients.bias),
        tangents_(call, inputs.tangents) {
    for (const TensorView& view : {out_, grad_out_}) check_type(call, "out and grad_out", view);
    if (gradients.key) key_ = call.key_rows("the gradient of key", gradients.key, score_dim_);
    if (gradients.value) value_ = call.key_rows("the gradient of value", gradients.value, call.value_dim);
    if (gradients.query) {
      query_ = call.query_rows("the gradient of query", gradients.query, score_dim_);
      check_gradient(call, "the gradient of query", query_);
    }
    if (inputs.moved.out) {
      out_tangent_ = call.query_rows("the tangent of out", inputs.moved.out, call.value_dim);
      log_sum_exp_tangent_ = call.query_scalars("the tangent of log_sum_exp", inputs.moved.log_sum_exp);
      weight_sum_ = call.query_scalars("the sum of weights", inputs.moved.weight_sum);
    }
    if (key_) check_gradient(call, "the gradient of key", key_);
    if (value_) check_gradient(call, "the gradient of value", value_);
    // Shares of the queries' gradient add up in the accumulation's type.
    query_sum_ = is_wide() ? arena.take(query_.shape(), call.accumulation) : query_;
    schedule_ = BackwardSchedule(call, bias_, parameters_, static_cast<bool>(inputs.moved.out), arena);
  }

  const BackwardSchedule& schedule() const { return schedule_; }

  void run() {
    parameters_.begin(schedule_.threads, schedule_.blocks * schedule_.sums_of_block());
    sum_chunks();
    parameters_.write();
  }

 private:
  bool is_wide() const { return query_ && query_.dtype() != call_.accumulation; }

  void sum_chunks() {
    bias_.clear();
    clear(score_v_);
    if (schedule_.empty) {
      for (const TensorView& gradient : {query_, key_, value_}) set_zero(gradient);
      return;
    }
    const std::int64_t chunks = schedule_.chunks, blocks = schedule_.blocks;
    OrderedSums ordered_sums(call_.batch * call_.heads * blocks + 1);  // the last site is the gradient of score v
    bias_.begin(blocks, chunks);
    std::vector<Scratch> block_scratch(static_cast<std::size_t>(schedule_.threads));
    std::vector<Scratch> sum_scratch(static_cast<std::size_t>(schedule_.threads));
    // A caller's own pool may begin tasks in any order, so that they draw what they do themselves.
    std::atomic<std::int64_t> next{0};
    const ShareTasks share(schedule_.tasks);
    parallel_for(schedule_.tasks, schedule_.threads, [&](std::int64_t, int worker) {
      const std::int64_t index = next++;
      if (worker == 0) share.begun(index);
      const auto at = static_cast<std::size_t>(worker);
      try {
        run_chunk(index, worker, block_scratch[at], sum_scratch[at], ordered_sums);
      } catch (...) {
        ordered_sums.abandon();
        bias_.abandon();
        parameters_.abandon();
        throw;
      }
    });
    if (is_wide()) write_queries();
  }

  static MutableTensorView to_write(const TensorView& view) {
    return {writable(view.bytes()), view.dtype(), view.shape(), view.strides()};
  }

  static void set_zero(const TensorView& rows) {
    if (rows) clear(to_write(rows));
  }

  BackwardTask task(std::int64_t b, std::int64_t h) const {
    BackwardTask task;
    task.forward = call_.task(b, h);
    task.out = call_.rows_of_queries(out_, b, h);
    task.grad_out = call_.rows_of_queries(grad_out_, b, h);
    task.log_sum_exp = call_.query_address(log_sum_exp_, b, h);
    task.log_sum_exp_step = log_sum_exp_.stride(-1);
    if (!out_tangent_) return task;
    task.is_double = true;
    task.tangents = tangents_.task(call_, b, h);
    task.out_tangent = call_.rows_of_queries(out_tangent_, b, h);
    task.log_sum_exp_tangent = rows_at(log_sum_exp_tangent_, b, h);
    task.weight_sum = rows_at(weight_sum_, b, h);
    return task;
  }

  OutputRows rows_at(const TensorView& scalars, std::int64_t b, std::int64_t h) const {
    return {writable(call_.query_address(scalars, b, h)), scalars.stride(-1)};
  }

  // Keys and values of the chunk in the accumulation's type: converted once, for all queries. The task's rows are then
  // those in `memory`, numbered as before.
  void widen_chunk(AttentionTask& task, std::int64_t chunk, std::byte* memory) const {
    if (call_.storage == call_.accumulation) return;
    for (const auto& [rows, size] :
         {std::pair(&task.key, task.common->key_dim), {&task.value, task.common->value_dim}}) {
      const auto row_bytes = static_cast<std::ptrdiff_t>(size_of(call_.accumulation)) * size;
      widen_rows(*rows, chunk, std::min(task.k_len, chunk + kChunkKeys), size, memory);
      *rows = {.data = memory - chunk * row_bytes, .type = call_.accumulation, .step = size};
      memory += schedule_.chunk_keys * row_bytes;
    }
  }

  // All queries, of all heads of the group, against one chunk of keys of one sequence.
  void run_chunk(std::int64_t index, int worker, Scratch& block_scratch, Scratch& sum_scratch,
                 OrderedSums& ordered_sums) {
    const BackwardPlan& plan = schedule_.kernel;
    const std::int64_t chunks = schedule_.chunks, blocks = schedule_.blocks;
    const std::int64_t b = index / chunks / call_.kv_heads, kv_head = index / chunks % call_.kv_heads;
    const std::int64_t chunk = index % chunks * kChunkKeys;
    const std::int64_t keys = std::clamp<std::int64_t>(call_.key_length(b) - chunk, 0, kChunkKeys);
    ScratchRoom memory = sum_scratch.get(schedule_.sum_bytes() + schedule_.wide_bytes);
    ChunkSums sums{memory.take_bytes(schedule_.key_bytes), memory.take_bytes(schedule_.value_bytes),
                   memory.take_bytes(schedule_.score_bytes)};
    if (parameters_.are_wanted()) sums.parameters = parameters_.share(worker);
    const auto rows = static_cast<std::size_t>(divide_up(keys, kMostTileKeys) * kMostTileKeys);
    const auto chunk_rows = static_cast<std::size_t>(schedule_.chunk_keys);
    std::memset(sums.key, 0, schedule_.key_bytes / chunk_rows * rows);
    std::memset(sums.value, 0, schedule_.value_bytes / chunk_rows * rows);
    std::memset(sums.score_v, 0, schedule_.score_bytes);
    std::byte* bias_sums = memory.take_bytes(schedule_.bias_bytes);
    const std::int64_t group = call_.heads / call_.kv_heads;
    AttentionTask of_group = call_.task(b, kv_head * group);
    widen_chunk(of_group, chunk, memory.take_bytes(schedule_.wide_bytes));
    for (std::int64_t member = 0; member < group; ++member) {
      const std::int64_t h = kv_head * group + member;
      const BiasGradients::Head bias_head{
          .task = index, .sequence = b, .head = h, .member = member, .chunk = chunk, .keys = keys, .sums = bias_sums};
      bias_.begin_head(bias_head);
      BackwardTask head = task(b, h);
      head.forward.key = of_group.key;
      head.forward.value = of_group.value;
      // Late queries first: under a causal mask every chunk has work there, so that threads follow each other closely.
      const std::int64_t in_order = kOrderedQueries / plan.block_queries;
      for (std::int64_t first = (blocks - 1) / in_order * in_order; first >= 0; first -= in_order) {
        bool is_seen = false;
        for (std::int64_t block = first; block < std::min(first + in_order, blocks); ++block) {
          const bool sees = run_block(bias_head, head, block, sums, block_scratch, ordered_sums);
          is_seen = is_seen || sees;
        }
        if (is_seen && parameters_.are_wanted()) parameters_.finish_share(worker);
      }
      bias_.end_head(bias_head);
      if (parameters_.are_wanted()) parameters_.finish_chunk(worker, b, h, b * chunks + chunk / kChunkKeys);
    }
    const double scale = of_group.common->scale;
    if (key_) write_keys(key_, b, kv_head, chunk, keys, sums.key, plan.key_columns, scale);
    if (value_) write_keys(value_, b, kv_head, chunk, keys, sums.value, plan.value_columns, 1);
    if (!score_v_) return;
    const std::int64_t last_place = call_.batch * call_.heads * blocks;
    ordered_sums.wait_for(last_place, index);
    add_score_v(sums.score_v, scale);
    ordered_sums.finish(last_place);
  }

  // A block of queries of a head against the chunk; whether they see any of it.
  bool run_block(const BiasGradients::Head& bias_head, BackwardTask& head, std::int64_t block, ChunkSums& sums,
                 Scratch& block_scratch, OrderedSums& ordered_sums) {
    const BackwardPlan& plan = schedule_.kernel;
    const std::int64_t b = bias_head.sequence, h = bias_head.head, chunk = bias_head.chunk;
    const std::int64_t begin = block * plan.block_queries;
    const std::int64_t end = std::min(begin + plan.block_queries, call_.query_length(b));
    check_stop();
    bias_.begin_block(bias_head, block, head);
    sums.sink = parameters_.sink_sums(b, h, block * schedule_.sums_of_block());
    const std::byte* share =
        bias_head.keys == 0 || begin >= end
            ? nullptr
            : attend_backward(head, begin, end, chunk, sums, block_scratch.get(plan.scratch_bytes));
    bias_.end_block(bias_head, block);
    if (!query_ || begin >= end) return share != nullptr;
    const KeyRange seen = keys_of_queries(head.forward, begin, end);
    if (share == nullptr) {
      if (chunk == 0 && seen.first == seen.last) clear_query_rows(b, h, begin, end);
      return false;
    }
    const std::int64_t sum = (b * call_.heads + h) * schedule_.blocks + block;
    const std::int64_t predecessors = chunk / kChunkKeys - seen.first / kChunkKeys;
    ordered_sums.wait_for(sum, predecessors);
    add_query_rows(b, h, begin, end, share, predecessors);
    ordered_sums.finish(sum);
    return true;
  }

  void add_score_v(const std::byte* sums, double scale) const {
    const auto add = [&]<class T>(T) {
      for (std::int64_t h = 0; h < score_dim_; ++h) {
        score_v_.at<T>({h}) += reinterpret_cast<const T*>(sums)[h] * static_cast<T>(scale);
      }
    };
    visit_f32_f64(call_.accumulation, add);
  }

  // The first share is stored, others are added to it.
  void add_query_rows(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end, const std::byte* share,
                      std::int64_t predecessors) {
    const auto add = [&]<class T>(T) {
      const T* from = reinterpret_cast<const T*>(share);
      for (std::int64_t i = begin; i < end; ++i, from += score_dim_) {
        T* row = query_row<T>(b, h, i);
        if (predecessors == 0) {
          std::copy_n(from, score_dim_, row);
        } else {
          for (std::int64_t e = 0; e < score_dim_; ++e) row[e] += from[e];
        }
      }
    };
    visit_f32_f64(call_.accumulation, add);
  }

  void clear_query_rows(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) {
    const auto clear = [&]<class T>(T) {
      for (std::int64_t i = begin; i < end; ++i) std::fill_n(query_row<T>(b, h, i), score_dim_, T(0));
    };
    visit_f32_f64(call_.accumulation, clear);
  }

  template <class T>
  T* query_row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return reinterpret_cast<T*>(writable(call_.query_address(query_sum_, b, h))) + i * query_sum_.stride(-2);
  }

  void write_keys(const TensorView& to, std::int64_t b, std::int64_t kv_head, std::int64_t chunk, std::int64_t keys,
                  std::byte* sums, std::int64_t columns, double scale) const {
    const auto row_bytes = to.stride(-2) * static_cast<std::int64_t>(size_of(to.dtype()));
    std::byte* address = writable(call_.key_address(to, b, kv_head)) + chunk * row_bytes;
    write_scaled({sums, columns, keys, to.size(-1), address, to.stride(-2)}, to.dtype(), scale);
  }

  void write_queries() {
    const double bytes =
        static_cast<double>(query_sum_.element_count()) * static_cast<double>(size_of(call_.accumulation));
    const int threads = worth_waking(call_.threads, 0, bytes);
    parallel_for(call_.batch * call_.heads, threads, [&](std::int64_t index, int) {
      const std::int64_t b = index / call_.heads, h = index % call_.heads;
      std::byte* from = writable(call_.query_address(query_sum_, b, h));
      std::byte* to = writable(call_.query_address(query_, b, h));
      write_scaled({from, query_sum_.stride(-2), call_.query_length(b), score_dim_, to, query_.stride(-2)},
                   query_.dtype(), 1);
    });
  }

  const AttentionCall& call_;
  const std::int64_t score_dim_;  // of a query, or of its hidden layer
  ParameterSums parameters_;
  TensorView out_, grad_out_, log_sum_exp_;
  TensorView query_, key_, value_;  // where gradients go; not given: not wanted
  TensorView query_sum_;            // where shares of q's gradient are added: query_, unless that is narrower
  MutableTensorView score_v_;
  BiasGradients bias_;
  Tangents tangents_;
  BackwardSchedule schedule_;
  TensorView out_tangent_, log_sum_exp_tangent_, weight_sum_;  // given: the double backward
};

// The parameters' gradients, checked: shapes and types of the parameters.
void check_parameters(const Score& score, const ScoreGradients& gradients) {
  const auto check = [](const char* name, const TensorView& parameter, const TensorView& gradient) {
    if (!gradient) return;
    if (!parameter) fail("{} is not a parameter of this score", name);
    require_shape(name, gradient, parameter.shape());
    if (gradient.dtype() != parameter.dtype()) {
      fail("{} is {}; it must be {}", name, name_of(gradient.dtype()), name_of(parameter.dtype()));
    }
    require_distinct(name, gradient);
  };
  check("the gradient of score w_query", score.w_query(), gradients.w_query);
  check("the gradient of score w_key", score.w_key(), gradients.w_key);
  check("the gradient of score v", score.v(), gradients.v);
}

}  // namespace

BackwardSchedule::BackwardSchedule(const AttentionCall& call, const BiasGradients& bias,
                                   const ParameterSums& parameters, bool is_double, Arena& arena)
    : empty(call.batch == 0 || call.heads == 0 || call.q_len == 0 || call.k_len == 0) {
  std::size_t shared = 0, of_thread = 0;
  if (!empty) {
    BackwardTask first;
    first.forward = call.task(0, 0);
    first.is_double = is_double;
    kernel = plan_backward(first);
    chunks = divide_up(call.k_len, kChunkKeys);
    blocks = divide_up(call.q_len, kernel.block_queries);
    tasks = call.batch * call.kv_heads * chunks;
    const std::size_t element = size_of(call.accumulation);
    chunk_keys = std::min(kChunkKeys, divide_up(call.k_len, kMostTileKeys) * kMostTileKeys);
    key_bytes = static_cast<std::size_t>(chunk_keys * kernel.key_columns) * element;
    value_bytes = static_cast<std::size_t>(chunk_keys * kernel.value_columns) * element;
    score_bytes = static_cast<std::size_t>(kernel.key_columns) * element;
    bias_bytes = bias.sum_bytes();
    if (call.storage != call.accumulation) {
      wide_bytes = static_cast<std::size_t>(chunk_keys * (call.key_dim + call.value_dim)) * element;
    }
    const auto ordered_sums = static_cast<std::size_t>(call.batch * call.heads * blocks + 1) * sizeof(std::int64_t);
    shared += ordered_sums + bias.ordered_sum_bytes(blocks, chunks);
    of_thread = kernel.scratch_bytes + sum_bytes() + wide_bytes;
  }
  shared += parameters.shared_bytes(blocks * sums_of_block());
  const auto busy = [&](int count) { return static_cast<int>(std::clamp<std::int64_t>(tasks, 1, count)); };
  const auto bytes = [&](int count) {
    const auto workers = static_cast<std::size_t>(busy(count));
    const std::size_t of_workers = workers * (parameters.thread_bytes() + MemoryCount::kSmallBytes);
    return shared + of_workers + std::max(workers * of_thread, parameters.written_bytes());
  };
  allowed_threads = arena.threads_within(call.threads, bytes);
  threads = std::min(busy(allowed_threads), call.useful_threads(5));
  arena.borrow(bytes(threads));
}

void check_backward(const AttentionOptions& options, const AttentionGradients& gradients) {
  if (options.block_table) refuse("attention_backward", "paged keys are not supported");
  if (options.logit_function) {
    refuse("attention_backward", "logit functions are not supported, they have no derivative");
  }
  if (options.precision != Precision::exact) {
    refuse("attention_backward", "precision must be exact");
  }
  if (options.empty_rows != EmptyRows::zero) {
    refuse("attention_backward", "empty_rows must be zero; NaN would reach every gradient");
  }
  check_parameters(options.score, gradients.score);
}

void check_type(const AttentionCall& call, std::string_view name, const TensorView& view) {
  if (view.dtype() == call.storage || view.dtype() == call.accumulation) return;
  refuse("attention_backward", "{} must be {} or {}, got {}", name, name_of(call.storage), name_of(call.accumulation),
         name_of(view.dtype()));
}

void check_gradient(const AttentionCall& call, std::string_view name, const TensorView& view) {
  check_type(call, name, view);
  require_distinct(name, view);
}

BackwardSchedule differentiate_scores(const AttentionCall& call, const BackwardInputs& inputs,
                                      const AttentionOptions& options, const AttentionGradients& gradients,
                                      Arena& arena) {
  const Arena::Frame frame(arena);
  BackwardPass pass(call, inputs, options, gradients, arena);
  if (!arena.is_dry()) pass.run();
  return pass.schedule();
}

DoubleBackwardSchedule differentiate_twice(const AttentionCall& call, BackwardInputs inputs,
                                           const AttentionOptions& options, const AttentionSecondGradients& gradients,
                                           Arena& arena) {
  const auto taken = [&](const TensorView& like) { return arena.take(like.shape(), call.storage); };
  inputs.moved = {.out = gradients.grad_out ? gradients.grad_out : taken(inputs.out),
                  .log_sum_exp = taken(inputs.log_sum_exp),
                  .weight_sum = taken(inputs.log_sum_exp)};
  const JvpSchedule tangents(call, arena);
  if (!arena.is_dry()) {
    move_outputs(call, inputs.out, inputs.log_sum_exp, inputs.tangents, tangents, inputs.moved);
  }
  AttentionGradients first;
  first.query = gradients.query, first.key = gradients.key, first.value = gradients.value;
  return {tangents, differentiate_scores(call, inputs, options, first, arena)};
}

}  // namespace qkv::inline attending
