// Writes what each step of multi-head attention did, with the shape at each reshape.
#include "explain/head_steps.h"

#include <fmt/format.h>

#include "core/mathematics.h"
#include "explain/numbers.h"

namespace qkv::inline explaining {

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

std::string counted(std::int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

namespace {

Section project(const HeadsContext& context) {
  const ExplainInput& input = context.input;
  Block block;
  block.lines = {plain(
      fmt::format("One matrix for all heads turns each input of {} numbers into {}: {} of {} (the query size).",
                  input.inputs.size(1), context.columns(), counted(input.heads, "head", "heads"), context.head_dim()))};
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

// What the first query of the first head makes of key j, in this step.
Line first_line(const HeadsContext& context, int number, std::int64_t j) {
  const auto of = [&](const char* name, std::int64_t row) {
    return context.run.at(name).view().select(0, 0).select(0, row);
  };
  const double logit = of("logits", 0).at<double>({j}), weight = of("weights", 0).at<double>({j});
  const std::string key = context.names("key")[static_cast<std::size_t>(j)];
  Line line = {{"head 1: ", Role::none}};
  if (number == 4) {
    line.insert(line.end(), {{context.names("query")[0], Role::query}, {" . ", Role::none}, {key, Role::key}});
    if (context.head_dim() <= context.most(kFirst)) add_products(line, of("query", 0), of("key", j));
    double score = 0;
    for (std::int64_t d = 0; d < context.head_dim(); ++d) {
      score += of("query", 0).at<double>({d}) * of("key", j).at<double>({d});
    }
    line.insert(line.end(),
                {{" = ", Role::none},
                 {number_text(score), Role::score},
                 {logit == -HUGE_VAL ? ",  hidden: " : fmt::format(",  / sqrt({}) = ", context.head_dim()), Role::none},
                 {number_text(logit), Role::score}});
  } else if (number == 5) {
    double sum = 0;
    for (std::int64_t k = 0; k < context.count(); ++k) sum += exp(of("logits", 0).at<double>({k}));
    line.insert(line.end(), {{fmt::format("exp({}) / {} = ", number_text(logit), number_text(sum)), Role::score},
                             {number_text(weight), Role::weight},
                             {"  for " + key, Role::none}});
  } else {
    line.insert(line.end(), {{number_text(weight), Role::weight},
                             {" x ", Role::none},
                             {vector_text(of("value", j), context.most(kFirst)), Role::value},
                             {"  of " + key, Role::none}});
  }
  return line;
}

Section step(const HeadsContext& context, int number, const char* title, const std::string& text, const char* name,
             Role role) {
  Block block;
  block.lines = {plain(text)};
  for (const std::int64_t j : some_of(context.count(), context.most(kFirst))) {
    block.lines.push_back(j < 0 ? plain("...") : first_line(context, number, j));
  }
  if (number == 6) {
    block.lines.push_back(
        {{"head 1: their sum is ", Role::none},
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

}  // namespace

std::vector<Section> head_steps(const HeadsContext& context) {
  const char* masked = context.masked ? "; -inf where a key is hidden" : "";
  return {
      project(context),
      split(context),
      step(context, 4, "Score, in each head",
           fmt::format("logits = query . key / sqrt({}): the size of a head, not of all of them{}.", context.head_dim(),
                       masked),
           "logits", Role::score),
      step(context, 5, "Softmax, in each head", "Each row becomes positive and sums to 1: each head has its own view.",
           "weights", Role::weight),
      step(context, 6, "Weighted sum, in each head", "heads = weights x value, head by head.", "heads", Role::output),
      merge(context),
      project_out(context)};
}

}  // namespace qkv::inline explaining
