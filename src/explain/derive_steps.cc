// Steps 1 to 3 as data: inputs, weights, and the key, query and value of each input.
#include <fmt/format.h>

#include "explain/numbers.h"
#include "explain/story.h"

namespace qkv {
namespace {

Section prepare_inputs(const Story& story) {
  Block block;
  block.lines = {
      plain(fmt::format("{} inputs of {} numbers each: one row per input.", story.count(), story.run.inputs.size(1)))};
  if (!story.input.picture.empty()) {
    for (std::int64_t i : some_of(story.count(), story.most(20))) {
      story.check_stop();
      if (i < 0) continue;
      block.pictures.push_back(
          {story.input_name(i), Tensor::copy(story.run.inputs.view().select(0, i).reshape(story.input.picture))});
    }
  }
  add(block, story, "inputs", Role::input, &Intermediates::inputs, story.names("input"));
  Section section{1, "Prepare inputs", {block}};
  if (given(story.input.w_embed)) {
    Block embedding;
    embedding.lines = {plain("Each input x is embedded: a = w_embed x. From here on, a takes the place of x.")};
    embedding.quantities.push_back({"w_embed", Role::input, story.input.w_embed, {}, false});
    add(embedding, story, "embedded", Role::input, &Intermediates::embedded, story.names("input"));
    section.blocks.push_back(embedding);
  }
  return section;
}

Section initialise_weights(const Story& story) {
  const ExplainInput& input = story.input;
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
Line projection_line(const Story& story, const Projection& projection, std::int64_t i) {
  const TensorView vector = story.run.embedded.view().select(0, i);
  const Tensor result =
      Tensor::of<double>({projection.weights.size(1)}, project_one(vector, projection.weights, projection.bias));
  Line line = {{fmt::format("{:<7} ", story.name(projection.name, i)), projection.role}};
  if (i > 0 || projection.weights.size(0) > story.terms() || projection.weights.size(1) > story.terms()) {
    line.push_back(
        {fmt::format("= {} x ", given(story.input.w_embed) ? "embedded " + story.input_name(i) : story.input_name(i)),
         Role::none});
    line.push_back({fmt::format("w_{}", projection.name), projection.role});
    if (given(projection.bias)) line.push_back({fmt::format(" + b_{}", projection.name), projection.role});
  } else {
    for (std::int64_t j = 0; j < projection.weights.size(0); ++j) {
      line.push_back({j == 0 ? "= " : " + ", Role::none});
      line.push_back({number_text(vector.at<double>({j})), Role::input});
      line.push_back(
          {fmt::format(" {}", vector_text(projection.weights.view().select(0, j), story.terms())), Role::none});
    }
    if (given(projection.bias)) {
      line.push_back(
          {fmt::format(" + {}", vector_text(projection.bias.view().reshape({result.size(0)}), story.terms())),
           Role::none});
    }
  }
  line.push_back({" = ", Role::none});
  line.push_back({vector_text(result, story.terms()), projection.role});
  return line;
}

Section derive_key_query_value(const Story& story) {
  Block single;
  single.lines = {
      plain("One vector at a time: each number of an input scales one row of the weights, and the scaled "
            "rows are added.")};
  for (std::int64_t i : some_of(story.count(), story.most(4))) {
    story.check_stop();
    if (i < 0) {
      single.lines.push_back(plain("..."));
      continue;
    }
    for (const Projection& projection : projections(story.input)) {
      story.check_stop();
      single.lines.push_back(projection_line(story, projection, i));
    }
  }
  Block product;
  product.lines = {plain("All at once, as one matrix product each:"), {}};
  Line& formula = product.lines.back();
  for (const Projection& projection : projections(story.input)) {
    if (!formula.empty()) formula.push_back({",  ", Role::none});
    formula.push_back({projection.name, projection.role});
    formula.push_back({given(story.input.w_embed) ? " = embedded x " : " = inputs x ", Role::none});
    formula.push_back({fmt::format("w_{}", projection.name), projection.role});
    if (given(projection.bias)) formula.push_back({fmt::format(" + b_{}", projection.name), projection.role});
  }
  for (const Projection& projection : projections(story.input)) {
    add(product, story, projection.name, projection.role, projection.result, story.names(projection.name));
  }
  Block agreement;
  agreement.lines = {
      plain(fmt::format("Both ways agree: largest difference {}.", number_text(story.truth.one_at_a_time_difference)))};
  return {3, "Derive key, query and value", {single, product, agreement}};
}

}  // namespace

std::vector<Section> derive_steps(const Story& story) {
  return {prepare_inputs(story), initialise_weights(story), derive_key_query_value(story)};
}

}  // namespace qkv
