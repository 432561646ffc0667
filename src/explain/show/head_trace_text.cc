// One head in full as text: sections for the writer of text.cc.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "explain/observe/token_names.h"
#include "explain/steps/explanation_context.h"
#include "explain/steps/text_parts.h"
#include "qkv/explain/explain_model.h"

namespace qkv {
namespace {

// How much of a head is shown.
struct Shown {
  std::size_t keys = 5;      // for each query
  std::size_t rows = 20;     // of the table of one token's keys
  std::int64_t numbers = 6;  // of a value
};
constexpr Shown kAll = {std::string::npos, std::string::npos, std::numeric_limits<std::int64_t>::max()};

double element(const Tensor& tensor, std::int64_t i, std::int64_t j) { return tensor.view().at<double>({i, j}); }

struct Names {
  TokenNames tokens, keys;
};

Section attention_map(const HeadTrace& trace, const Names& names) {
  const auto numbered = [](const TokenNames& all, std::size_t count) {
    std::vector<std::string> list;
    for (std::size_t i = 0; i < count; ++i) list.push_back(all.column(static_cast<std::int64_t>(i)));
    return list;
  };
  Block block;
  block.lines = {plain("A row for each token that attends, a column for each that is attended to:")};
  block.quantities = {{.name = "weights",
                       .role = Role::weight,
                       .values = trace.weights,
                       .rows = numbered(names.tokens, trace.tokens.size()),
                       .columns = trace.keys}};
  return {0, "Who attends to whom, as a map", {block}};
}

Section attention_lists(const HeadTrace& trace, const Names& names, const Shown& shown) {
  Block block;
  block.lines = about_cut(trace.cut);
  block.lines.push_back(plain("Each token, and the tokens that it attends most to, with their weights:"));
  for (std::int64_t i = 0; i < trace.weights.size(0); ++i) {
    Line line{{names.tokens.column(i), Role::query}, {"  ->  ", Role::none}};
    const std::vector<std::int64_t> keys = keys_by_weight(trace.weights, i);
    for (std::size_t n = 0; n < std::min(keys.size(), shown.keys); ++n) {
      if (element(trace.logits, i, keys[n]) == -HUGE_VAL) break;  // this one and all after it are hidden
      line.push_back({(n == 0 ? "" : ", "), Role::none});
      line.push_back({names.keys.unique(keys[n]), Role::key});
      line.push_back({" " + fixed_text(element(trace.weights, i, keys[n]), 3), Role::weight});
    }
    if (line.size() == 2) line.push_back({"nobody: everything is hidden from it", Role::none});
    block.lines.push_back(line);
  }
  return {0, "Who attends to whom", {block}};
}

// How a query is computed.
std::string query_text(const HeadTrace& trace) {
  const std::int64_t head_dim = trace.query.size(1), count = trace.query.size(0);
  switch (trace.score) {
    case Score::Kind::additive:
      return fmt::format("query = state of the decoder before the word, times w_query, as it is added to the keys: {}.",
                         to_string(trace.query.shape()));
    case Score::Kind::bilinear:
      return fmt::format("query = state of the decoder, times w, as it is multiplied by the keys: {}.",
                         to_string(trace.query.shape()));
    case Score::Kind::dot:
      return fmt::format("query = state of the decoder: {}.", to_string(trace.query.shape()));
    default:
      return fmt::format(
          "queries of all heads = inputs x w_query + b_query: {} x {} -> {}; head {} owns {} of them: {}.",
          to_string(Dims{count, trace.model_dim}), to_string(Dims{trace.model_dim, trace.heads * head_dim}),
          to_string(Dims{count, trace.heads, head_dim}), trace.index.head, head_dim, to_string(trace.query.shape()));
  }
}

Section query_step(const HeadTrace& trace, const Names& names, std::int64_t token, const Shown&) {
  const std::int64_t count = trace.query.size(0);
  Block block;
  block.lines = {plain(query_text(trace))};
  std::string others;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i != token && trace.tokens[static_cast<std::size_t>(i)] == trace.tokens[static_cast<std::size_t>(token)]) {
      others += (others.empty() ? "" : ", ") + std::to_string(i);
    }
  }
  if (!others.empty()) {
    block.lines.push_back(
        plain(fmt::format("The token occurs several times: this is number {}; also at {} "
                          "(--token takes a number, too).",
                          token, others)));
  }
  block.quantities = {{fmt::format("query of \"{}\"", names.tokens[token]),
                       Role::query,
                       Tensor::copy(trace.query.view().select(0, token)),
                       {},
                       false}};
  return {1, fmt::format("The query of token {}, \"{}\"", token, names.tokens[token]), {block}};
}

// The sum of a token's weights, which are f32.
std::string about_sum(const HeadTrace& trace, std::int64_t token) {
  double sum = 0;
  for (std::int64_t j = 0; j < trace.weights.size(1); ++j) sum += element(trace.weights, token, j);
  const std::string text = fixed_text(sum, 3);
  return "which sum to " + (text == "1.000" ? "1" : text == "0.000" ? "0" : text);
}

Section weights_step(const HeadTrace& trace, const Names& names, std::int64_t token, const Shown& shown) {
  const std::int64_t count = trace.key.size(0), head_dim = trace.key.size(1);
  Block formulas, block;
  const bool additive = trace.score == Score::Kind::additive, biased = trace.bias.element_count() > 0;
  const bool is_root = trace.scale == 1 / std::sqrt(static_cast<double>(head_dim));
  const std::string capped =
      trace.soft_cap > 0 ? fmt::format(", capped: {0} tanh(it / {0})", number_text(trace.soft_cap)) : "";
  bool hides = false;
  for (std::int64_t j = 0; j < count; ++j) {
    hides = hides || is_hidden(element(trace.logits, token, j), element(trace.scores, token, j));
  }
  formulas.lines = {
      plain(fmt::format("score = {}: {} with each row of {} -> {}", additive ? "v . tanh(query + key)" : "query . key",
                        to_string(Dims{head_dim}), to_string(trace.key.shape()), to_string(Dims{count}))),
      plain((trace.score == Score::Kind::scaled_dot
                 ? fmt::format("logit = score x {}{}{}{}: {}", number_text(trace.scale),
                               is_root ? fmt::format(" (1/sqrt({}))", head_dim) : "",
                               biased ? " + bias of the key's relative position" : "", capped, to_string(Dims{count}))
                 : "logit = score") +
            (hides ? ", or -inf where the key is hidden" : "")),
      plain(fmt::format("weight = softmax of the logits, e^logit / (sum of all e^logit): {}, {}",
                        to_string(Dims{count}), about_sum(trace, token))),
      plain("value norm = weight x length of the value as it leaves the output projection (Kobayashi 2020)")};
  block.lines.push_back(
      {{fmt::format("{:<{}}", "key", characters(names.keys.column(0))), Role::key},
       {fmt::format("{:>12}{:>{}}{:>12}", "score", biased ? "bias" : "", biased ? 12 : 0, "logit"), Role::score},
       {fmt::format("{:>12}", "weight"), Role::weight},
       {fmt::format("{:>12}", "value norm"), Role::value}});
  const std::vector<std::int64_t> keys = keys_by_weight(trace.weights, token);
  for (std::size_t n = 0; n < std::min(keys.size(), shown.rows); ++n) {
    const std::int64_t key = keys[n];
    block.lines.push_back(
        {{names.keys.column(key), Role::key},
         {fmt::format("{:>12}{:>{}}{:>12}", fixed_text(element(trace.scores, token, key), 5),
                      biased ? fixed_text(element(trace.bias, token, key), 5) : "", biased ? 12 : 0,
                      fixed_text(element(trace.logits, token, key), 5)),
          Role::score},
         {fmt::format("{:>12}", fixed_text(element(trace.weights, token, key), 5)), Role::weight},
         {fmt::format("{:>12}", fixed_text(element(trace.value_norms, token, key), 5)), Role::value}});
  }
  if (keys.size() > shown.rows) {
    block.lines.push_back(
        plain(fmt::format("(and {} more: all of them with --full or --json)", keys.size() - shown.rows)));
  }
  return {2, "Scores, logits and weights of the keys, top keys first", {formulas, block}};
}

Section values_step(const HeadTrace& trace, const Names& names, std::int64_t token, const Shown& shown) {
  const std::vector<std::int64_t> keys = keys_by_weight(trace.weights, token);
  Block block;
  block.lines = {plain(fmt::format("The values of the top keys, {} numbers each, with the weights they go in by:",
                                   trace.value.size(1)))};
  for (std::size_t n = 0; n < std::min(keys.size(), shown.keys); ++n) {
    block.lines.push_back({{names.keys.column(keys[n]), Role::key},
                           {"  " + fixed_text(element(trace.weights, token, keys[n]), 5), Role::weight},
                           {" x ", Role::none},
                           {vector_text(trace.value.view().select(0, keys[n]), shown.numbers), Role::value}});
  }
  return {3, "Values", {block}};
}

Section output_step(const HeadTrace& trace, const Names& names, std::int64_t token, const Shown&) {
  Block block;
  block.lines = {plain(fmt::format("output = the sum of weight x value over all keys: {} x {} -> {}",
                                   to_string(Dims{trace.value.size(0)}), to_string(trace.value.shape()),
                                   to_string(Dims{trace.value.size(1)}))),
                 plain(trace.score == Score::Kind::scaled_dot
                           ? fmt::format("The outputs of the {} heads of layer {}, side by side, go on to the output "
                                         "projection.",
                                         trace.heads, trace.index.layer)
                           : "The output and the decoder's state, side by side, are read out for the next word.")};
  block.quantities = {{fmt::format("output for \"{}\"", names.tokens[token]),
                       Role::output,
                       Tensor::copy(trace.output.view().select(0, token)),
                       {},
                       false}};
  return {4, "The head's output", {block}};
}

Section about_origin(const HeadTrace& trace) {
  Block block;
  block.lines = {
      plain(fmt::format("Queries, keys, values, logits, weights and outputs are those of the kernel's own run "
                        "(f32, target {}); only the scores before the scale are computed for show, in f64, "
                        "from its queries and keys.",
                        trace.target)),
      plain(fmt::format("Largest differences over all tokens: logits from scale x scores{}{} {}, outputs from "
                        "weights x values in f64 {}.",
                        trace.bias.element_count() > 0 ? " + bias" : "", trace.soft_cap > 0 ? ", capped," : "",
                        number_text(trace.logits_difference), number_text(trace.output_difference)))};
  return {0, "Where the numbers come from", {block}};
}

}  // namespace

std::string to_text(const HeadTrace& trace, std::optional<std::int64_t> token, const TextStyle& style) {
  const Names names{TokenNames(trace.tokens), TokenNames(trace.keys)};
  Explanation explanation;
  explanation.title = printable(trace.title);
  const Shown shown = style.full ? kAll : Shown();
  if (style.heat) explanation.sections.push_back(attention_map(trace, names));
  explanation.sections.push_back(attention_lists(trace, names, shown));
  if (token) {
    for (const auto& step : {query_step, weights_step, values_step, output_step}) {
      explanation.sections.push_back(step(trace, names, *token, shown));
    }
  }
  explanation.sections.push_back(about_origin(trace));
  return to_text(explanation, style);
}

}  // namespace qkv
