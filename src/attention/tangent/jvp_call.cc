// Carries out attention_jvp(): one task per block of queries of each head, each over all keys in their order. Options
// without derivatives are refused.
#include "attention/tangent/jvp_call.h"

#include <algorithm>
#include <vector>

#include "attention/call/view_checks.h"
#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/share.h"
#include "core/stop.h"
#include "qkv/threads.h"
#include "simd/scratch.h"

namespace qkv::inline attending {
namespace {

class JvpPass {
 public:
  JvpPass(const AttentionCall& call, const TensorView& out, const TensorView& log_sum_exp,
          const AttentionTangents& tangents, const MovedOutputs& outputs)
      : call_(call),
        tangents_(call, tangents),
        out_(call.query_rows("out", out, call.value_dim)),
        log_sum_exp_(call.query_scalars("log_sum_exp", log_sum_exp)) {
    require_type_of_q(call, "out", out_);
    if (outputs.out) out_tangent_ = call.query_rows("the tangent of out", outputs.out, call.value_dim);
    if (outputs.log_sum_exp) {
      log_sum_exp_tangent_ = call.query_scalars("the tangent of log_sum_exp", outputs.log_sum_exp);
    }
    if (outputs.weight_sum) weight_sum_ = call.query_scalars("the sum of weights", outputs.weight_sum);
    if (out_tangent_) require_output(call, "the tangent of out", out_tangent_);
    if (log_sum_exp_tangent_) require_output(call, "the tangent of log_sum_exp", log_sum_exp_tangent_);
  }

  void run(const JvpSchedule& schedule) const {
    const JvpPlan& plan = schedule.kernel;
    const std::int64_t blocks = schedule.blocks;
    std::vector<Scratch> scratch(static_cast<std::size_t>(schedule.threads));
    const ShareTasks share(schedule.tasks);
    parallel_for(schedule.tasks, schedule.threads, [&](std::int64_t index, int worker) {
      check_stop();
      if (worker == 0) share.begun(index);
      const std::int64_t head = index / blocks, begin = index % blocks * plan.block_queries;
      const std::int64_t b = head / call_.heads, h = head % call_.heads;
      const std::int64_t end = std::min(begin + plan.block_queries, call_.query_length(b));
      if (begin >= end) return;
      attend_jvp(task(b, h), begin, end, scratch[static_cast<std::size_t>(worker)].get(plan.scratch_bytes));
    });
  }

 private:
  JvpTask task(std::int64_t b, std::int64_t h) const {
    JvpTask task;
    task.forward = call_.task(b, h);
    task.tangents = tangents_.task(call_, b, h);
    task.out = call_.rows_of_queries(out_, b, h);
    task.log_sum_exp = call_.query_address(log_sum_exp_, b, h);
    task.log_sum_exp_step = log_sum_exp_.stride(-1);
    task.out_tangent = rows_at(out_tangent_, b, h, -2);
    task.log_sum_exp_tangent = rows_at(log_sum_exp_tangent_, b, h, -1);
    task.weight_sum = rows_at(weight_sum_, b, h, -1);
    return task;
  }

  // Nowhere for a view that is not given. `rows`: the dimension of the queries.
  OutputRows rows_at(const TensorView& view, std::int64_t b, std::int64_t h, int rows) const {
    if (!view) return {};
    return {writable(call_.query_address(view, b, h)), view.stride(rows)};
  }

  const AttentionCall& call_;
  Tangents tangents_;
  TensorView out_, log_sum_exp_;
  TensorView out_tangent_, log_sum_exp_tangent_, weight_sum_;  // where results go; not given: not wanted
};

}  // namespace

JvpSchedule::JvpSchedule(const AttentionCall& call, Arena& arena) {
  if (call.batch > 0 && call.heads > 0 && call.q_len > 0) {
    kernel = plan_jvp(call.task(0, 0));
    blocks = divide_up(call.q_len, kernel.block_queries);
    tasks = call.batch * call.heads * blocks;
  }
  const auto busy = [&](int count) { return static_cast<int>(std::clamp<std::int64_t>(tasks, 1, count)); };
  const auto bytes = [&](int count) {
    return static_cast<std::size_t>(busy(count)) * (kernel.scratch_bytes + MemoryCount::kSmallBytes);
  };
  allowed_threads = arena.threads_within(call.threads, bytes);
  threads = std::min(busy(allowed_threads), call.useful_threads(5));
  arena.borrow(bytes(threads));
}

void require_tangents(std::string_view function, const AttentionCall& call, const AttentionOptions& options) {
  if (call.storage != call.accumulation) {
    refuse(function, "query has type {}; it must be f32 or f64", name_of(call.storage));
  }
  if (options.block_table) refuse(function, "paged keys are not supported");
  if (options.logit_function) refuse(function, "logit functions are not supported, they have no derivative");
  for (const RelativeTable& table : options.bias.tables()) {
    if (table.kind() == RelativeTable::Kind::shaw) refuse(function, "Shaw's table is not supported");
  }
  const Score::Kind score = options.score.kind();
  if (!is_dot_product(score)) refuse(function, "the score must be dot or scaled dot");
  if (options.soft_cap != 0) refuse(function, "soft_cap must be 0 (off)");
  if (options.dropout.p != 0) refuse(function, "dropout must be off");
  if (options.precision != Precision::exact) refuse(function, "precision must be exact");
  if (options.empty_rows != EmptyRows::zero) refuse(function, "empty_rows must be zero");
}

void require_type_of_q(const AttentionCall& call, std::string_view name, const TensorView& view) {
  if (view.dtype() == call.storage) return;
  fail("{} is {}; for {} inputs it must be {}", name, name_of(view.dtype()), name_of(call.storage),
       name_of(call.storage));
}

void require_output(const AttentionCall& call, std::string_view name, const TensorView& view) {
  require_type_of_q(call, name, view);
  require_distinct(name, view);
}

Tangents::Tangents(const AttentionCall& call, const AttentionTangents& tangents) {
  if (tangents.query) query_ = call.query_rows("the tangent of query", tangents.query, call.query_dim);
  if (tangents.key) key_ = call.key_rows("the tangent of key", tangents.key, call.key_dim);
  if (tangents.value) value_ = call.key_rows("the tangent of value", tangents.value, call.value_dim);
  if (query_) require_type_of_q(call, "the tangent of query", query_);
  if (key_) require_type_of_q(call, "the tangent of key", key_);
  if (value_) require_type_of_q(call, "the tangent of value", value_);
}

TaskTangents Tangents::task(const AttentionCall& call, std::int64_t b, std::int64_t h) const {
  const std::int64_t kv_head = h / (call.heads / call.kv_heads);
  TaskTangents task;
  if (query_) task.query = call.rows_of_queries(query_, b, h);
  if (key_) task.key = call.rows_of_keys(key_, b, kv_head);
  if (value_) task.value = call.rows_of_keys(value_, b, kv_head);
  return task;
}

void move_outputs(const AttentionCall& call, const TensorView& out, const TensorView& log_sum_exp,
                  const AttentionTangents& tangents, const JvpSchedule& schedule, const MovedOutputs& outputs) {
  JvpPass(call, out, log_sum_exp, tangents, outputs).run(schedule);
}

}  // namespace qkv::inline attending
