#include "attend_derivatives.h"

#include <fmt/format.h>

#include <algorithm>

namespace qkv::app {
namespace {

bool any_given(const std::vector<const ArrayOption*>& options) {
  return std::ranges::any_of(options, [](const ArrayOption* option) { return option->given(); });
}

}  // namespace

AttendDerivatives::AttendDerivatives(CLI::App& command, ArrayFiles& files, AttendRules& rules)
    : rules_(rules),
      grad_out_(files.input("--grad-out", "gradient of the output, of its shape")),
      grad_query_(files.output("--grad-query", "the gradient of the queries to write")),
      grad_key_(files.output("--grad-key", "the gradient of the keys to write")),
      grad_value_(files.output("--grad-value", "the gradient of the values to write")),
      grad_alibi_(files.output("--grad-alibi", "the gradient of the slopes to write")),
      grad_sinks_(files.output("--grad-sinks", "the gradient of the sinks to write")),
      grad_bias_(files.outputs("--grad-bias",
                               "the gradient of --bias to write, of its shape; repeated, in the order "
                               "of --bias")),
      grad_score_w_query_(files.output("--grad-score-w-query", "the gradient of this parameter to write")),
      grad_score_w_key_(files.output("--grad-score-w-key", "the gradient of this parameter to write")),
      grad_score_v_(files.output("--grad-score-v", "the gradient of this parameter to write")),
      grad_score_w_(files.output("--grad-score-w", "the gradient of this parameter to write")),
      tangent_out_(files.output("--tangent-out", "how the output moves when inputs move along tangents, to write")),
      tangent_log_sum_exp_(files.output("--tangent-log-sum-exp", "how the log-sum-exp moves then, to write")),
      tangent_query_(files.input("--tangent-query", "a tangent of the queries, of their shape")),
      tangent_key_(files.input("--tangent-key", "a tangent of the keys")),
      tangent_value_(files.input("--tangent-value", "a tangent of the values")),
      second_query_(files.output("--second-grad-query",
                                 "the gradient of the queries to write, of the sum of --grad-out times the tangent of "
                                 "the output")),
      second_key_(files.output("--second-grad-key", "the same of the keys")),
      second_value_(files.output("--second-grad-value", "the same of the values")),
      second_out_(files.output("--second-grad-out", "the same of --grad-out")) {
  for (const ArrayOption* output : first_outputs()) output->declared->needs(grad_out_.declared);
  for (const ArrayOption* output : {&second_query_, &second_key_, &second_value_, &second_out_}) {
    output->declared->needs(grad_out_.declared);
  }
  grad_alibi_.declared->needs(rules.alibi.declared);
  grad_sinks_.declared->needs(rules.sinks.declared);
  grad_bias_.declared->needs(rules.bias.declared);
  for (const auto& [gradient, parameter] :
       {std::pair(&grad_score_w_query_, "--score-w-query"), std::pair(&grad_score_w_key_, "--score-w-key"),
        std::pair(&grad_score_v_, "--score-v"), std::pair(&grad_score_w_, "--score-w")}) {
    gradient->declared->needs(command.get_option(parameter));
  }
  add_table_gradients(command, rules.tables, grad_out_.declared);
}

std::vector<const ArrayOption*> AttendDerivatives::first_outputs() const {
  return {&grad_query_, &grad_key_,           &grad_value_,       &grad_alibi_,   &grad_sinks_,
          &grad_bias_,  &grad_score_w_query_, &grad_score_w_key_, &grad_score_v_, &grad_score_w_};
}

void AttendDerivatives::check() const {
  const TableOptions& tables = rules_.tables;
  const bool second = any_given({&second_query_, &second_key_, &second_value_, &second_out_});
  const bool first = any_given(first_outputs()) || tables.grad_clipped.given() || tables.grad_t5.given() ||
                     tables.grad_swin.given() || tables.grad_shaw.given();
  if (grad_out_.given() && !first && !second) {
    throw UsageError("--grad-out", "requires a gradient to write, such as --grad-query");
  }
  const char* wanted = second ? "--second-grad-..." : tangent_out_.given() ? "--tangent-out" : "--tangent-log-sum-exp";
  const bool moves = second || tangent_out_.given() || tangent_log_sum_exp_.given();
  if (moves && !has_tangent()) {
    throw UsageError(wanted, "requires --tangent-query, --tangent-key or --tangent-value");
  }
  if (has_tangent() && !moves) {
    throw UsageError("--tangent-...", "requires --tangent-out, --tangent-log-sum-exp or --second-grad-...");
  }
  if (grad_bias_.paths.size() > rules_.bias.paths.size()) {
    throw UsageError("--grad-bias",
                     fmt::format("has {} files for {} of --bias", grad_bias_.paths.size(), rules_.bias.paths.size()));
  }
}

void AttendDerivatives::read(Dtype accumulation) {
  for (InputArray* array : {&grad_out_, &tangent_query_, &tangent_key_, &tangent_value_}) array->read_as(accumulation);
}

void AttendDerivatives::place(ArrayFiles& files, const ForwardPass& forward) {
  const Dtype dtype = accumulation_of(forward.query.dtype());
  const auto place = [&](const ArrayOption& output, const TensorView& like) {
    return output.given() ? files.place(output, like.shape(), dtype) : MutableTensorView();
  };
  const ScoreParameters& score = rules_.score_values;
  gradients_.query = place(grad_query_, forward.query);
  gradients_.key = place(grad_key_, forward.key);
  gradients_.value = place(grad_value_, forward.value);
  gradients_.score = {.w_query = place(rules_.score.w.empty() ? grad_score_w_query_ : grad_score_w_, score.w_query),
                      .w_key = place(grad_score_w_key_, score.w_key),
                      .v = place(grad_score_v_, score.v)};
  for (std::size_t i = 0; i < grad_bias_.paths.size(); ++i) {
    gradients_.bias.push_back(files.place(grad_bias_.paths[i], rules_.bias.arrays[i].shape(), dtype));
  }
  if (grad_bias_.given()) gradients_.bias.resize(rules_.bias.arrays.size());
  for (const auto& [table, file] : rules_.table_values.gradients(rules_.tables)) {
    gradients_.tables.push_back(files.place(file.path, table->shape(), dtype));
  }
  if (grad_alibi_.given()) gradients_.alibi_slopes = {place(grad_alibi_, rules_.alibi.view())};
  gradients_.sinks = place(grad_sinks_, rules_.sinks.view());
  moved_ = {.out = place(tangent_out_, forward.out), .log_sum_exp = place(tangent_log_sum_exp_, forward.log_sum_exp)};
  second_ = {.query = place(second_query_, forward.query),
             .key = place(second_key_, forward.key),
             .value = place(second_value_, forward.value),
             .grad_out = place(second_out_, forward.out)};
}

void AttendDerivatives::compute(const ForwardPass& forward) const {
  const auto& [q, k, v, out, log_sum_exp, options] = forward;
  const AttentionTangents tangents{
      .query = tangent_query_.view(), .key = tangent_key_.view(), .value = tangent_value_.view()};
  const bool second = second_.query || second_.key || second_.value || second_.grad_out;
  if (grad_out_.given()) attention_backward(q, k, v, out, log_sum_exp, grad_out_.view(), options, gradients_);
  if (moved_.out || moved_.log_sum_exp) attention_jvp(q, k, v, out, log_sum_exp, tangents, options, moved_);
  if (second) {
    attention_double_backward(q, k, v, out, log_sum_exp, grad_out_.view(), tangents, options, second_);
  }
}

}  // namespace qkv::app
