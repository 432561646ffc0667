// Steps 1 to 3 as data: inputs, weights, and the key, query and value of each input.
#include <fmt/format.h>

#include "core/stop.h"
#include "explain/steps/explanation_context.h"
#include "explain/steps/text_parts.h"

namespace qkv::inline explaining {
namespace {

Section prepare_inputs(const ExplanationContext& context) {
  Block block;
  block.lines = {plain(
      fmt::format("{} inputs of {} numbers each: one row per input.", context.count(), context.run.inputs.size(1)))};
  if (!context.input.picture.empty()) {
    for (std::int64_t i : some_of(context.count(), context.most(20))) {
      check_stop();
      if (i < 0) continue;
      block.pictures.push_back(
          {context.input_name(i), Tensor::copy(context.run.inputs.view().select(0, i).reshape(context.input.picture))});
    }
  }
  add(block, context, "inputs", Role::input, &Intermediates::inputs, context.names("input"));
  Section section{1, "Prepare inputs", {block}};
  if (given(context.input.w_embed)) {
    Block embedding;
    embedding.lines = {plain("Each input x is embedded: a = w_embed x. From here on, a takes the place of x.")};
    embedding.quantities.push_back({"w_embed", Role::input, context.input.w_embed, {}, false});
    add(embedding, context, "embedded", Role::input, &Intermediates::embedded, context.names("input"));
    section.blocks.push_back(embedding);
  }
  return section;
}

Section initialise_weights(const ExplanationContext& context) {
  const ExplainInput& input = context.input;
  Block block;
  block.lines = {
      plain("Three matrices turn an input into its query, its key and its value. Before training they are "
            "set once, at random; training then changes them.")};
  if (!input.weights_origin.empty()) block.lines.push_back(plain(input.weights_origin));
  const auto add_given = [&](const char* name, Role role, const Tensor& tensor) {
    if (given(tensor)) block.quantities.push_back({name, role, tensor, {}, false});
  };
  add_given("w_query", Role::query, input.w_query);
  add_given("w_key", Role::key, input.w_key);
  add_given("w_value", Role::value, input.w_value);
  add_given("b_query", Role::query, input.b_query);
  add_given("b_key", Role::key, input.b_key);
  add_given("b_value", Role::value, input.b_value);
  add_given("score_w_query", Role::score, input.score_w_query);
  add_given("score_w_key", Role::score, input.score_w_key);
  add_given("score_w", Role::score, input.score_w);
  add_given("score_v", Role::score, input.score_v);
  return {2, "Initialise weights", {block}};
}

struct Projection {
  const char* name;
  Role role;
  const Tensor& weights;
  const Tensor& bias;
  Tensor Intermediates::* result;
};

std::vector<Projection> projections(const ExplainInput& input) {
  return {{"query", Role::query, input.w_query, input.b_query, &Intermediates::query},
          {"key", Role::key, input.w_key, input.b_key, &Intermediates::key},
          {"value", Role::value, input.w_value, input.b_value, &Intermediates::value}};
}

// "query 1 = 1 (1 0 1) + 0 (1 0 0) + ... = (1 0 2)", or without the terms if there are many.
Line projection_line(const ExplanationContext& context, const Projection& projection, std::int64_t i) {
  const TensorView vector = context.run.embedded.view().select(0, i);
  const Tensor result =
      Tensor::of<double>({projection.weights.size(1)}, project_one(vector, projection.weights, projection.bias));
  Line line = {{fmt::format("{:<7} ", context.name(projection.name, i)), projection.role}};
  if (i > 0 || projection.weights.size(0) > context.terms() || projection.weights.size(1) > context.terms()) {
    line.push_back({fmt::format("= {} x ", given(context.input.w_embed) ? "embedded " + context.input_name(i)
                                                                        : context.input_name(i)),
                    Role::none});
    line.push_back({fmt::format("w_{}", projection.name), projection.role});
    if (given(projection.bias)) line.push_back({fmt::format(" + b_{}", projection.name), projection.role});
  } else {
    for (std::int64_t j = 0; j < projection.weights.size(0); ++j) {
      append(line, {{j == 0 ? "= " : " + "},
                    {number_text(vector.at<double>({j})), Role::input},
                    {" " + vector_text(projection.weights.view().select(0, j), context.terms())}});
    }
    if (given(projection.bias)) {
      line.push_back({" + " + vector_text(projection.bias.view().reshape({result.size(0)}), context.terms())});
    }
  }
  append(line, {{" = "}, {vector_text(result, context.terms()), projection.role}});
  return line;
}

Section derive_key_query_value(const ExplanationContext& context) {
  Block single;
  single.lines = {
      plain("One vector at a time: each number of an input scales one row of the weights, and the scaled "
            "rows are added.")};
  for (std::int64_t i : some_of(context.count(), context.most(4))) {
    check_stop();
    if (i < 0) {
      single.lines.push_back(plain("..."));
      continue;
    }
    for (const Projection& projection : projections(context.input)) {
      check_stop();
      single.lines.push_back(projection_line(context, projection, i));
    }
  }
  Block product;
  product.lines = {plain("All at once, as one matrix product each:"), {}};
  Line& formula = product.lines.back();
  for (const Projection& projection : projections(context.input)) {
    if (!formula.empty()) formula.push_back({",  "});
    append(formula, {{projection.name, projection.role},
                     {given(context.input.w_embed) ? " = embedded x " : " = inputs x "},
                     {fmt::format("w_{}", projection.name), projection.role}});
    if (given(projection.bias)) formula.push_back({fmt::format(" + b_{}", projection.name), projection.role});
  }
  for (const Projection& projection : projections(context.input)) {
    add(product, context, projection.name, projection.role, projection.result, context.names(projection.name));
  }
  Block agreement;
  agreement.lines = {plain(
      fmt::format("Both ways agree: largest difference {}.", number_text(context.truth.one_at_a_time_difference)))};
  return {3, "Derive key, query and value", {single, product, agreement}};
}

}  // namespace

std::vector<Section> derive_steps(const ExplanationContext& context) {
  return {prepare_inputs(context), initialise_weights(context), derive_key_query_value(context)};
}

}  // namespace qkv::inline explaining
