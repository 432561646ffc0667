// Checks the options of a call, and makes the task of each head.
#include "attention/call/attention_problem.h"

#include <algorithm>
#include <cmath>

#include "attention/call/kernel_choice.h"
#include "attention/call/view_checks.h"
#include "core/worth_waking.h"
#include "qkv/threads.h"

namespace qkv::inline attending {
namespace {

// std::invalid_argument for parameters of the score that do not fit.
void check_score(const AttentionInputs& inputs, const Score& score) {
  const std::int64_t query_dim = inputs.query_dim, key_dim = inputs.key_dim;
  const auto require = [&](std::string_view name, const TensorView& view, const Dims& shape) {
    require_shape(name, view, shape);
    require_unit_stride(name, view);
    if (view.dtype() != inputs.accumulation) {
      fail("{} is {}; for {} inputs it must be {}", name, name_of(view.dtype()), name_of(inputs.storage),
           name_of(inputs.accumulation));
    }
    if (view.size(0) < 1 || view.size(0) > kMaxDim)
      fail("{} {}: sizes must be 1 to {}", name, to_string(shape), kMaxDim);
  };
  switch (score.kind()) {
    case Score::Kind::scaled_dot:
    case Score::Kind::dot:
      break;
    case Score::Kind::bilinear:
      require("score w", score.w_query(), {query_dim, key_dim});
      break;
    case Score::Kind::additive:
      require("score w_query", score.w_query(), {score.v().size(0), query_dim});
      require("score w_key", score.w_key(), {score.v().size(0), key_dim});
      require("score v", score.v(), {score.v().size(0)});
      break;
    case Score::Kind::concat:
      require("score w", score.w_query(), {score.v().size(0), query_dim + key_dim});
      require("score v", score.v(), {score.v().size(0)});
      break;
  }
}

}  // namespace

int threads_of(const AttentionOptions& options) {
  if (options.threads < 0) fail("threads must be 0 (default) or more");
  return std::min(options.threads > 0 ? options.threads : threads(), kMaxThreads);
}

int useful_threads(const AttentionProblem& problem, int threads, double products) {
  double pairs = 0, queries = 0, keys = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const auto q_len = static_cast<double>(problem.query_length(b)), k_len = static_cast<double>(problem.key_length(b));
    pairs += q_len * k_len;
    queries += q_len;
    keys += k_len;
  }
  const auto heads = static_cast<double>(problem.heads), kv_heads = static_cast<double>(problem.kv_heads);
  const double elements =
      static_cast<double>(problem.key_dim + problem.value_dim) * (queries * heads + keys * kv_heads);
  const double of_a_pair = products * static_cast<double>(problem.key_dim + problem.value_dim) / 2;
  return worth_waking(threads, pairs * heads * of_a_pair, elements * static_cast<double>(size_of(problem.storage)));
}

AttentionProblem::AttentionProblem(const TensorView& q, const TensorView& k, const TensorView& v,
                                   const AttentionOptions& options)
    : AttentionInputs(q, k, v, options),
      empty_rows(options.empty_rows),
      logit_function_(options.logit_function),
      rules_(*this, options, memory_) {
  check_score(*this, options.score);
  common_.query_dim = query_dim;
  common_.key_dim = key_dim;
  common_.value_dim = value_dim;
  common_.row_length = k_len;
  set_score(options.score);
  const bool scaled = options.score.kind() == Score::Kind::scaled_dot;
  common_.scale = options.scale.value_or(scaled ? 1 / std::sqrt(static_cast<double>(query_dim)) : 1.0);
  if (!std::isfinite(common_.scale)) fail("scale must be finite, got {}", common_.scale);
  common_.soft_cap = options.soft_cap;
  if (!(common_.soft_cap >= 0) || !std::isfinite(common_.soft_cap)) {
    fail("soft_cap must be finite, 0 (off) or more, got {}", common_.soft_cap);
  }
  common_.dropout = DropoutRule(options.dropout);
  if (logit_function_) common_.logit_function = &logit_function_;
  if (options.precision == Precision::reduced &&
      why_not_reduced(storage, options.score.kind(), key_dim, value_dim).empty()) {
    precision = Precision::reduced;
  }
  rules_.set(common_);
}

void AttentionProblem::set_score(const Score& score) {
  common_.score = score.kind();
  const auto rows = [&](const TensorView& view) { return Rows{view.bytes(), accumulation, view.stride(0)}; };
  if (score.v()) common_.hidden = score.v().size(0);
  if (score.w_query()) common_.score_w_query = rows(score.w_query());
  if (score.w_key()) common_.score_w_key = rows(score.w_key());
  if (score.kind() == Score::Kind::concat) {
    const auto skipped = query_dim * static_cast<std::int64_t>(size_of(accumulation));
    common_.score_w_key = {common_.score_w_query.data + skipped, accumulation, common_.score_w_query.step};
  }
  common_.score_v = score.v().bytes();
}

void AttentionProblem::set_outputs(const MutableTensorView& out, const AttentionExtras& extras) {
  memory_.keep(AttentionOutputs::chosen_rows_bytes(extras));
  outputs_.emplace(*this, out, extras);
  outputs_->set(common_);
  if (empty_rows == EmptyRows::nan && !outputs_->has_log_sum_exp()) {
    memory_.keep(AttentionOutputs::log_sum_exp_bytes(*this));
  }
}

void AttentionProblem::complete_outputs() {
  if (empty_rows == EmptyRows::nan && !outputs_->has_log_sum_exp()) outputs_->add_log_sum_exp(*this);
}

bool AttentionProblem::may_fold_heads() const {
  return is_dot_product(common_.score) && !common_.dropout.is_on() && rules_.are_alike_for_heads() &&
         !logit_function_ && !(outputs_ && outputs_->has_planes());
}

AttentionTask AttentionProblem::task(std::int64_t b, std::int64_t h) const {
  AttentionTask task;
  set(task, b, h);
  return task;
}

void AttentionProblem::set(AttentionTask& task, std::int64_t b, std::int64_t h) const {
  task.common = &common_;
  set_rows(task, b, h);
  rules_.set(task, b, h);
  if (outputs_) outputs_->set(task, *this, b, h);
  choose_kernel(task, precision);
}

}  // namespace qkv::inline attending
