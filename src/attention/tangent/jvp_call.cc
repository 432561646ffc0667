// Checks the tangents of a call and refuses options without derivatives; decides the threads of attention_jvp().
#include "attention/tangent/jvp_call.h"

#include <algorithm>

#include "attention/call/view_checks.h"
#include "core/divide_up.h"
#include "core/refuse.h"
#include "qkv/threads.h"

namespace qkv::inline attending {

void require_tangents(std::string_view function, const AttentionProblem& problem, const AttentionOptions& options) {
  if (options.threads < 0) refuse(function, "threads must be 0 (default) or more");
  if (problem.storage != problem.accumulation) {
    refuse(function, "query has type {}; it must be f32 or f64", name_of(problem.storage));
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

void require_type_of_q(const AttentionProblem& problem, std::string_view name, const TensorView& view) {
  if (view.dtype() == problem.storage) return;
  fail("{} is {}; for {} inputs it must be {}", name, name_of(view.dtype()), name_of(problem.storage),
       name_of(problem.storage));
}

void require_output(const AttentionProblem& problem, std::string_view name, const TensorView& view) {
  require_type_of_q(problem, name, view);
  require_distinct(name, view);
}

JvpSchedule::JvpSchedule(const AttentionProblem& problem, const AttentionOptions& options, std::size_t outer)
    : asked_threads(threads_of(options)) {
  if (problem.batch > 0 && problem.heads > 0 && problem.q_len > 0) {
    kernel = plan_jvp(problem.task(0, 0));
    blocks = divide_up(problem.q_len, kernel.block_queries);
    tasks = problem.batch * problem.heads * blocks;
  }
  const auto busy = [&](int count) { return static_cast<int>(std::clamp<std::int64_t>(tasks, 1, count)); };
  const auto bytes = [&](int count) {
    return outer + static_cast<std::size_t>(busy(count)) * (kernel.scratch_bytes + MemoryCount::kSmallBytes);
  };
  allowed_threads = problem.memory().threads_within(asked_threads, bytes);
  threads = std::min(busy(allowed_threads), useful_threads(problem, asked_threads, 5));
  workspace = problem.memory().most_with(bytes(threads));
}

std::size_t moved_bytes(const AttentionProblem& problem, bool has_view) {
  std::int64_t queries = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) queries += problem.query_length(b);
  return static_cast<std::size_t>(queries * problem.heads * (2 + (has_view ? 0 : problem.value_dim))) *
         size_of(problem.storage);
}

Tangents::Tangents(const AttentionProblem& problem, const AttentionTangents& tangents) {
  if (tangents.query) query_ = problem.query_rows("the tangent of query", tangents.query, problem.query_dim);
  if (tangents.key) key_ = problem.key_rows("the tangent of key", tangents.key, problem.key_dim);
  if (tangents.value) value_ = problem.key_rows("the tangent of value", tangents.value, problem.value_dim);
  if (query_) require_type_of_q(problem, "the tangent of query", query_);
  if (key_) require_type_of_q(problem, "the tangent of key", key_);
  if (value_) require_type_of_q(problem, "the tangent of value", value_);
}

TaskTangents Tangents::task(const AttentionProblem& problem, std::int64_t b, std::int64_t h) const {
  const std::int64_t kv_head = h / (problem.heads / problem.kv_heads);
  TaskTangents task;
  if (query_) task.query = problem.rows_of_queries(query_, b, h);
  if (key_) task.key = problem.rows_of_keys(key_, b, kv_head);
  if (value_) task.value = problem.rows_of_keys(value_, b, kv_head);
  return task;
}

}  // namespace qkv::inline attending
