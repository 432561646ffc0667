// explain(): puts the steps and remarks of a walk-through together and checks its input; and the example that the
// well-known tutorials share.
#include "qkv/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/refuse.h"
#include "explain/steps/explanation_context.h"
#include "explain/steps/text_parts.h"
#include "qkv/stop.h"
#include "qkv/target.h"

namespace qkv {

inline namespace explaining {

std::string ExplanationContext::input_name(std::int64_t i) const {
  return input.labels.empty() ? "input " + std::to_string(i + 1) : input.labels[static_cast<std::size_t>(i)];
}

std::string ExplanationContext::name(std::string_view part, std::int64_t i) const {
  return input.labels.empty() ? fmt::format("{} {}", part, i + 1) : fmt::format("{} of {}", part, input_name(i));
}

std::vector<std::string> ExplanationContext::names(std::string_view part) const {
  std::vector<std::string> all;
  for (std::int64_t i = 0; i < count(); ++i) all.push_back(part == "input" ? input_name(i) : name(part, i));
  return all;
}

std::string score_name(Score::Kind kind) {
  switch (kind) {
    case Score::Kind::dot:
      return "dot";
    case Score::Kind::additive:
      return "additive";
    case Score::Kind::concat:
      return "concat";
    case Score::Kind::bilinear:
      return "bilinear";
    case Score::Kind::scaled_dot:
      break;
  }
  return "scaled-dot";
}

void add_products(Line& line, const TensorView& query, const TensorView& key) {
  for (std::int64_t d = 0; d < query.size(0); ++d) {
    append(line, {{d == 0 ? " = " : " + "},
                  {number_text(query.at<double>({d})), Role::query},
                  {"*"},
                  {number_text(key.at<double>({d})), Role::key}});
  }
}

std::vector<std::int64_t> some_of(std::int64_t count, std::int64_t most) {
  const std::int64_t last = most / 3, first = most - last - 1;
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) {
    if (count > most && i == first) {
      indices.push_back(-1);
      i = count - last;
    }
    indices.push_back(i);
  }
  return indices;
}

void add(Block& block, const ExplanationContext& context, const std::string& name, Role role,
         Tensor Intermediates::* member, const std::vector<std::string>& rows) {
  const bool substituted = context.substituted(name);
  block.quantities.push_back({name, role, context.run.*member, rows, substituted});
  if (substituted) block.quantities.push_back({"true " + name, role, context.truth.*member, rows, false});
}

}  // namespace explaining

Explanation explain(const ExplainInput& input) {
  const StopScope stop(input.stop);
  if (input.heads != 0) return explain_heads(input);
  const Intermediates run = compute_intermediates(input, input.substitutes);
  const Intermediates truth = input.substitutes.empty() ? run : compute_intermediates(input, {});
  const auto labels = static_cast<std::int64_t>(input.labels.size());
  if (labels != 0 && labels != run.inputs.size(0)) {
    refuse("explain", "there must be one label per input, got {} labels for {} inputs", labels, run.inputs.size(0));
  }
  if (!input.picture.empty() && (input.picture.size() != 2 || element_count(input.picture) != run.inputs.size(1))) {
    refuse("explain", "a picture of {} does not have the {} pixels of an input", to_string(input.picture),
           run.inputs.size(1));
  }

  const ExplanationContext context{input, run, truth};
  Explanation explanation;
  explanation.title = input.title.empty() ? "Self-attention step by step" : input.title;
  explanation.score = score_name(input.score);
  explanation.scale = run.scale;
  explanation.cost = run.cost;
  explanation.target = selected_target();
  explanation.output = run.output;
  explanation.true_output = truth.output;
  explanation.stop = input.stop;
  explanation.full = input.full;
  explanation.inputs = input.inputs.size(0);
  if (context.masked()) explanation.mask = explained_mask(input, explanation.inputs);
  explanation.largest_difference = larger(run.reference_difference, truth.reference_difference);
  for (const auto& [name, tensor] : input.substitutes) explanation.substituted.push_back(name);

  std::vector<Section>& sections = explanation.sections;
  sections.push_back(about_roles(context, explanation.mask));
  for (Section& step : derive_steps(context)) sections.push_back(std::move(step));
  for (Section& step : attend_steps(context)) sections.push_back(std::move(step));
  if (context.count() > 1) sections.push_back(about_attention_between(context));
  for (Section& remark : about_tutorials(context)) sections.push_back(std::move(remark));
  sections.push_back(about_check(context, explanation.target));
  return explanation;
}

ExplainInput worked_example() {
  const auto matrix = [](std::int64_t rows, std::int64_t columns, const std::vector<double>& values) {
    return Tensor::of<double>({rows, columns}, values);
  };
  ExplainInput example;
  example.title = "Self-attention step by step: the worked example";
  example.inputs = matrix(3, 4, {1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1});
  example.w_query = matrix(4, 3, {1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1});
  example.w_key = matrix(4, 3, {0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0});
  example.w_value = matrix(4, 3, {0, 2, 0, 0, 3, 0, 1, 0, 3, 1, 1, 0});
  example.weights_origin =
      "Here they are small whole numbers, picked by the tutorials so that everything can be "
      "checked by hand.";
  example.score = Score::Kind::dot;
  example.tutorial = true;
  return example;
}

}  // namespace qkv
