// Multi-head attention in eight steps: runs the layer, and puts together what is written of it.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/counted.h"
#include "core/mathematics.h"
#include "explain/observe/intermediates.h"
#include "explain/observe/require.h"
#include "explain/steps/explanation_context.h"
#include "explain/steps/text_parts.h"
#include "qkv/layers/multi_head_attention.h"
#include "qkv/target.h"
#include "reference/attention.h"

namespace qkv::inline explaining {
namespace {

// The text about one run.
struct HeadsContext {
  const ExplainInput& input;
  const std::map<std::string, Tensor>& run;  // by the names of an observer, without the batch of one
  bool masked = false;                       // keys may be hidden

  std::int64_t count() const { return input.inputs.size(0); }
  std::int64_t columns() const { return input.w_query.size(1); }
  std::int64_t most(std::int64_t usual) const { return input.full ? std::numeric_limits<std::int64_t>::max() : usual; }
  std::int64_t head_dim() const { return columns() / input.heads; }
  std::vector<std::string> names(std::string_view part) const;
  // Labels of all heads side by side: "head 2.1" is the first number of head 2.
  std::vector<std::string> numbers_of_heads() const;
  // A quantity of each head; `rows` and `columns` name its inputs.
  Quantity quantity(const std::string& name, Role role, std::string_view rows, std::string_view columns = "") const;
};

std::vector<std::string> HeadsContext::names(std::string_view part) const {
  std::vector<std::string> all;
  for (std::int64_t i = 0; i < count(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    all.push_back(input.labels.empty() ? fmt::format("{} {}", part, i + 1) : input.labels[at]);
  }
  return all;
}

std::vector<std::string> HeadsContext::numbers_of_heads() const {
  std::vector<std::string> all;
  for (std::int64_t head = 1; head <= input.heads; ++head) {
    for (std::int64_t d = 1; d <= head_dim(); ++d) all.push_back(fmt::format("head {}.{}", head, d));
  }
  return all;
}

Quantity HeadsContext::quantity(const std::string& name, Role role, std::string_view rows,
                                std::string_view columns) const {
  return {name, role, run.at(name), names(rows), false, columns.empty() ? std::vector<std::string>() : names(columns)};
}

Section project(const HeadsContext& context) {
  const ExplainInput& input = context.input;
  Block block;
  block.lines = {
      plain(fmt::format("One matrix for all heads turns each input of {} numbers into {}: {} of {} (the query size).",
                        input.inputs.size(1), context.columns(), counted(input.heads, "head"), context.head_dim()))};
  if (!input.weights_origin.empty()) block.lines.push_back(plain(input.weights_origin));
  const std::vector<std::string> columns = context.numbers_of_heads();
  block.quantities = {{"w_query", Role::query, input.w_query, {}, false, columns},
                      {"w_key", Role::key, input.w_key, {}, false, columns},
                      {"w_value", Role::value, input.w_value, {}, false, columns}};
  const auto rows = [&](const char* name, Role role) {
    const Tensor joined = Tensor::copy(context.run.at(name).view().transpose(0, 1));
    return Quantity{std::string("projected ") + name,
                    role,
                    Tensor::copy(joined.view().reshape({context.count(), context.columns()})),
                    context.names(name),
                    false,
                    columns};
  };
  Block product;
  product.lines = {plain("projected query = inputs x w_query, and so on:")};
  product.quantities = {rows("query", Role::query), rows("key", Role::key), rows("value", Role::value)};
  return {2, "Project, all heads at once", {block, product}};
}

std::string owned_columns(const HeadsContext& context) {
  const std::int64_t size = context.head_dim(), heads = context.input.heads;
  const auto own = [size](std::int64_t head) {
    return size == 1 ? fmt::format("column {}", head)
                     : fmt::format("columns {} to {}", (head - 1) * size + 1, head * size);
  };
  if (heads == 1) return "Head 1 owns all of them.";
  return fmt::format("Head 1 owns {}, head 2 {}{}.", own(1), own(2), heads > 2 ? ", and so on" : "");
}

Section split(const HeadsContext& context) {
  Block block;
  block.lines = {plain("The split is logical: the same numbers, read under another shape. " + owned_columns(context)),
                 plain(fmt::format("  {} -> {} -> {}", to_string(Dims{context.count(), context.columns()}),
                                   to_string(Dims{context.count(), context.input.heads, context.head_dim()}),
                                   to_string(Dims{context.input.heads, context.count(), context.head_dim()}))),
                 plain("  inputs, columns -> inputs, heads, head_dim -> heads, inputs, head_dim")};
  Section section{3, "Split into heads", {block}};
  for (const auto& [name, role] :
       {std::pair("query", Role::query), std::pair("key", Role::key), std::pair("value", Role::value)}) {
    Block part;
    part.quantities = {context.quantity(name, role, name)};
    section.blocks.push_back(part);
  }
  return section;
}

constexpr std::int64_t kFirst = 6;  // keys, and terms of a sum, that are shown of head 1 and input 1

// This step for key j and the first query of the first head.
Line first_line(const HeadsContext& context, int number, std::int64_t j) {
  const auto of = [&](const char* name, std::int64_t row) {
    return context.run.at(name).view().select(0, 0).select(0, row);
  };
  const double logit = of("logits", 0).at<double>({j}), weight = of("weights", 0).at<double>({j});
  const std::string key = context.names("key")[static_cast<std::size_t>(j)];
  Line line = {{"head 1: "}};
  if (number == 4) {
    append(line, {{context.names("query")[0], Role::query}, {" . "}, {key, Role::key}});
    if (context.head_dim() <= context.most(kFirst)) add_products(line, of("query", 0), of("key", j));
    double score = 0;
    for (std::int64_t d = 0; d < context.head_dim(); ++d) {
      score += of("query", 0).at<double>({d}) * of("key", j).at<double>({d});
    }
    append(line, {{" = "},
                  {number_text(score), Role::score},
                  {is_hidden(logit, score) ? ",  hidden: " : fmt::format(",  / sqrt({}) = ", context.head_dim())},
                  {number_text(logit), Role::score}});
  } else if (number == 5) {
    double sum = 0;
    for (std::int64_t k = 0; k < context.count(); ++k) sum += exp(of("logits", 0).at<double>({k}));
    if (std::isfinite(sum) && sum > 0) {
      line.push_back({fmt::format("exp({}) / {} = ", number_text(logit), number_text(sum)), Role::score});
    }
    append(line, {{number_text(weight), Role::weight}, {"  for " + key}});
  } else {
    append(line, {{number_text(weight), Role::weight},
                  {" x "},
                  {vector_text(of("value", j), context.most(kFirst)), Role::value},
                  {"  of " + key}});
  }
  return line;
}

Section step(const HeadsContext& context, int number, const char* title, const std::string& text, const char* name,
             Role role) {
  Block block;
  block.lines = {plain(text)};
  add_lines(block, context.count(), context.most(kFirst),
            [&](std::int64_t j) { return first_line(context, number, j); });
  if (number == 6) {
    block.lines.push_back(
        {{"head 1: their sum is "},
         {vector_text(context.run.at("heads").view().select(0, 0).select(0, 0), context.most(kFirst)), Role::output}});
  }
  const bool pairs = role != Role::output;
  block.quantities = {context.quantity(name, role, pairs ? "query" : "output", pairs ? "key" : "")};
  return {number, title, {block}};
}

Section merge(const HeadsContext& context) {
  Block block;
  block.lines = {
      plain("Heads side by side again: swap heads and inputs, then read each input's heads as one row."),
      plain(fmt::format("  {} -> {} -> {}", to_string(Dims{context.input.heads, context.count(), context.head_dim()}),
                        to_string(Dims{context.count(), context.input.heads, context.head_dim()}),
                        to_string(Dims{context.count(), context.columns()})))};
  block.quantities = {
      {"merged", Role::output, context.run.at("merged"), context.names("output"), false, context.numbers_of_heads()}};
  return {7, "Merge the heads", {block}};
}

Section project_out(const HeadsContext& context) {
  Block block;
  block.lines = {
      plain(fmt::format("output = merged x w_out{}: {} x {} -> {}", given(context.input.b_out) ? " + b_out" : "",
                        to_string(Dims{context.count(), context.columns()}), to_string(context.input.w_out.shape()),
                        to_string(context.run.at("output").shape())))};
  block.quantities = {{"w_out", Role::output, context.input.w_out, context.numbers_of_heads(), false},
                      {"output", Role::output, context.run.at("output"), context.names("output"), false}};
  return {8, "Project out", {block}};
}

// Steps 2 to 8: projected, split, each head's own attention, merged, projected out.
std::vector<Section> head_steps(const HeadsContext& context) {
  const char* masked = context.masked ? "; -inf where a key is hidden" : "";
  return {
      project(context),
      split(context),
      step(context, 4, "Score, in each head",
           fmt::format("logits = query . key / sqrt({}): the size of a head, not of all of them{}.", context.head_dim(),
                       masked),
           "logits", Role::score),
      step(context, 5, "Softmax, in each head",
           "Each head has its own view. " + about_row_sums(context.run.at("weights"), context.names("query")),
           "weights", Role::weight),
      step(context, 6, "Weighted sum, in each head", "heads = weights x value, head by head.", "heads", Role::output),
      merge(context),
      project_out(context)};
}

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
                              .kv_heads = input.heads,
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
