// Multi-head attention in eight steps: runs the layer, and puts together what is written of it.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "explain/cost.h"
#include "explain/explanation_context.h"
#include "explain/head_steps.h"
#include "explain/mask_rules.h"
#include "explain/numbers.h"
#include "explain/require.h"
#include "qkv/layers/multi_head_attention.h"
#include "qkv/target.h"
#include "reference/attention.h"

namespace qkv::inline explaining {
namespace {

void check(const ExplainInput& input) {
  check_matrices(input);
  for (const auto& [name, tensor] :
       {std::pair("inputs", &input.inputs), std::pair("w_query", &input.w_query), std::pair("w_key", &input.w_key),
        std::pair("w_value", &input.w_value), std::pair("w_out", &input.w_out)}) {
    require(given(*tensor) && tensor->rank() == 2, "{} must be given as a matrix", name);
  }
  require(!given(input.w_embed) && input.substitutes.empty() && input.score == Score::Kind::scaled_dot && !input.scale,
          "with heads the score is scaled-dot, without scale, w_embed and substitutes");
  const std::int64_t n = input.inputs.size(0), dim = input.inputs.size(1), columns = input.w_query.size(1);
  require(n <= 4096, "{} inputs are more than the 4096 that can be shown", n);
  require(input.heads >= 1 && columns % input.heads == 0, "{} columns of w_query cannot be split among {} heads",
          columns, input.heads);
  for (const auto& [name, tensor] :
       {std::pair("w_query", &input.w_query), std::pair("w_key", &input.w_key), std::pair("w_value", &input.w_value)}) {
    require(tensor->shape() == Dims{dim, columns}, "with heads {} must be {}, got {}", name,
            to_string(Dims{dim, columns}), to_string(tensor->shape()));
  }
  require(input.w_out.size(0) == columns, "w_out must have {} rows, one per column of the merged heads, got {}",
          columns, to_string(input.w_out.shape()));
}

// One row below the other.
Tensor stacked(std::initializer_list<const Tensor*> parts) {
  std::vector<double> all;
  for (const Tensor* part : parts)
    all.insert(all.end(), part->data<double>(), part->data<double>() + part->element_count());
  const std::int64_t rows = static_cast<std::int64_t>(parts.size()) * (*parts.begin())->size(0);
  return Tensor::of<double>({rows, (*parts.begin())->size(1)}, all);
}

Tensor transposed(const Tensor& matrix) { return Tensor::copy(matrix.view().transpose(0, 1)); }

// [size]; zeros if no bias is given.
Tensor bias_of(const Tensor& bias, const char* name, std::int64_t size) {
  if (!given(bias)) return Tensor::zeros({1, size}, Dtype::f64);
  require(bias.element_count() == size && bias.dtype() == Dtype::f64, "{} must hold {} numbers, got {}", name, size,
          to_string(bias.shape()));
  return Tensor::copy(bias.view().reshape({1, size}));
}

MultiHeadAttention layer_of(const ExplainInput& input) {
  const std::int64_t columns = input.w_query.size(1), out = input.w_out.size(1);
  const Tensor w_query = transposed(input.w_query), w_key = transposed(input.w_key),
               w_value = transposed(input.w_value);
  const Tensor b_query = bias_of(input.b_query, "b_query", columns), b_key = bias_of(input.b_key, "b_key", columns);
  const Tensor b_value = bias_of(input.b_value, "b_value", columns), b_out = bias_of(input.b_out, "b_out", out);
  Weights weights({{"in_proj_weight", stacked({&w_query, &w_key, &w_value})},
                   {"in_proj_bias", Tensor::copy(stacked({&b_query, &b_key, &b_value}).view().reshape({3 * columns}))},
                   {"out_proj.weight", transposed(input.w_out)},
                   {"out_proj.bias", Tensor::copy(b_out.view().reshape({out}))}},
                  "explain", Dtype::f64);
  return MultiHeadAttention(
      {.model_dim = input.inputs.size(1), .heads = input.heads, .head_dim = columns / input.heads, .out_dim = out},
      weights);
}

// Copies of all that passes, without the batch of one.
struct Recorder : Observer {
  void receive(std::string_view name, const TensorView& value) override {
    values[std::string(name)] = Tensor::copy(value.rank() == 4 ? value.select(0, 0) : value);
  }
  std::map<std::string, Tensor> values{};
};

Section about_schemes(const ExplainInput& input, const MultiHeadAttention& layer, const Tensor& output,
                      const MultiHeadAttentionOptions& options) {
  const auto apart = [&](HeadScheme scheme) {
    return number_text(largest_difference(layer.with_scheme(scheme).forward(input.inputs, options), output));
  };
  const std::int64_t dim = input.inputs.size(1), columns = input.w_query.size(1), head_dim = columns / input.heads;
  const std::string matrices = counted(input.heads, "matrix", "matrices");
  Block block;
  block.lines = {
      plain("Texts write the projections in three ways, which say the same. Each was computed:"),
      plain(fmt::format("  packed: one matrix {}, split logically, as above", to_string(Dims{dim, columns}))),
      plain(fmt::format("  per head: {} {}; largest difference of the outputs {}", matrices,
                        to_string(Dims{dim, head_dim}), apart(HeadScheme::per_head))),
      plain(fmt::format("  two-stage: a shared matrix {}, then {} {}; largest difference {}",
                        to_string(Dims{dim, columns}), matrices, to_string(Dims{columns, head_dim}),
                        apart(HeadScheme::two_stage)))};
  return {0, "Three ways to write the weights", {block}};
}

double reference_difference(const HeadsContext& context, const MultiHeadAttentionOptions& options) {
  const auto batch = [&](const char* name) {
    const Tensor& heads = context.run.at(name);
    return heads.view().reshape({1, heads.size(0), heads.size(1), heads.size(2)});
  };
  const reference::AttentionResult expected =
      reference::attention(batch("query"), batch("key"), batch("value"), {.mask = options.mask});
  return larger(largest_difference(context.run.at("heads"), expected.out),
                larger(largest_difference(context.run.at("weights"), expected.weights),
                       largest_difference(context.run.at("logits"), expected.logits)));
}

}  // namespace

Explanation explain_heads(const ExplainInput& input) {
  check(input);
  require(input.labels.empty() || static_cast<std::int64_t>(input.labels.size()) == input.inputs.size(0),
          "there must be one label per input, got {} labels for {} inputs", input.labels.size(), input.inputs.size(0));
  const MultiHeadAttention layer = layer_of(input);
  const OwnedMask mask = mask_of(input, input.inputs.size(0));
  const MultiHeadAttentionOptions options{.mask = mask.mask};
  Recorder recorder;
  Explanation explanation;
  explanation.output = layer.forward(input.inputs, options, &recorder);
  explanation.true_output = explanation.output;
  explanation.stop = input.stop;
  explanation.full = input.full;
  explanation.inputs = input.inputs.size(0);
  explanation.mask = explained_mask(input, explanation.inputs);
  const HeadsContext context{input, recorder.values, mask.mask.align() || given(input.mask)};
  explanation.title = input.title.empty() ? "Multi-head attention step by step" : input.title;
  explanation.score = score_name(input.score);
  explanation.scale = 1 / std::sqrt(static_cast<double>(context.head_dim()));
  explanation.target = selected_target();
  explanation.largest_difference = reference_difference(context, options);
  explanation.cost = plan_of({.heads = input.heads,
                              .queries = context.count(),
                              .keys = context.count(),
                              .head_dim = context.head_dim(),
                              .value_dim = context.head_dim(),
                              .dtype = Dtype::f64},
                             mask.mask);

  Block inputs;
  inputs.lines = {
      plain(fmt::format("{} inputs of {} numbers each: one row per input.", context.count(), input.inputs.size(1)))};
  inputs.quantities = {{"inputs", Role::input, input.inputs, context.names("input"), false}};
  Block check;
  check.lines = {
      plain(fmt::format("The numbers are those of the production kernel's own run (f64, CPU target {}).",
                        explanation.target)),
      plain("Largest difference from the reference, in plain loops: " + number_text(explanation.largest_difference))};
  explanation.sections = {{1, "Prepare inputs", {inputs}}};
  for (Section& section : head_steps(context)) explanation.sections.push_back(std::move(section));
  explanation.sections.push_back(about_schemes(input, layer, explanation.output, options));
  explanation.sections.push_back({0, "Check", {check}});
  return explanation;
}

}  // namespace qkv::inline explaining
