// The measures of one token as text: a table of keys for each attention, and one of heads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/mathematics.h"
#include "explain/observe/left_out_masks.h"
#include "explain/observe/require.h"
#include "explain/observe/token_names.h"
#include "explain/steps/explanation_context.h"
#include "explain/steps/text_parts.h"
#include "qkv/explain/token_measures.h"

namespace qkv {
namespace {

constexpr std::size_t kMostRows = 20;

const char* shown_name(Measure measure) {
  constexpr const char* kNames[] = {"weight", "value norm", "gradient", "rollout", "knock-out"};
  return kNames[static_cast<std::size_t>(measure)];
}

constexpr Role role_of(Measure measure) {
  constexpr Role kRoles[] = {Role::weight, Role::value, Role::score, Role::weight, Role::output};
  return kRoles[static_cast<std::size_t>(measure)];
}

// Rows by the size of their last measure, the largest first.
std::vector<std::size_t> by_size(const std::vector<MeasuredBy>& by) {
  const std::vector<double>& values = by.back().values;
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return std::abs(values[i]); });
  return order;
}

// `cell` gives the text for each measure.
template <class Cell>
Line row_of(const std::string& name, const std::vector<MeasuredBy>& by, const Cell& cell) {
  Line line{{name, Role::key}};
  for (const MeasuredBy& one : by) line.push_back({fmt::format(" {:>11}", cell(one)), role_of(one.measure)});
  return line;
}

Line head_row(const std::string& name, const std::vector<MeasuredBy>& by) {
  return row_of(name, by, [](const MeasuredBy& one) { return shown_name(one.measure); });
}

Line number_row(const std::string& name, const std::vector<MeasuredBy>& by, std::size_t i) {
  return row_of(name, by, [i](const MeasuredBy& one) { return fixed_text(one.values[i], 5); });
}

// `name` gives each row as wide as `head`.
Block table_of(const std::string& head, const std::vector<MeasuredBy>& by,
               const std::function<std::string(std::size_t)>& name, const TextStyle& style) {
  Block table;
  table.lines = {head_row(head, by)};
  const std::vector<std::size_t> order = by_size(by);
  const std::size_t shown = style.full ? order.size() : std::min(order.size(), kMostRows);
  for (std::size_t n = 0; n < shown; ++n) table.lines.push_back(number_row(name(order[n]), by, order[n]));
  if (shown < order.size()) {
    table.lines.push_back(plain(fmt::format("(and {} more: all of them with --full or --json)", order.size() - shown)));
  }
  if (by.back().measure != Measure::knock_out) return table;
  Line line{{fmt::format("{:<{}}", "ranks as knock-out", head.size()), Role::none}};
  for (const MeasuredBy& one : by) {
    if (one.measure == Measure::knock_out) continue;
    line.push_back({fmt::format(" {:>11}", one.correlation ? fixed_text(*one.correlation, 3) : "-"), Role::none});
  }
  table.lines.push_back(std::move(line));
  return table;
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(characters(text), width), ' ');
}

constexpr std::size_t kKeyWidth = 20, kHeadWidth = 34;
constexpr std::size_t kLossBar = 20;  // characters of the largest knock-out

std::string output_name(const TokenMeasures& measures) {
  return TokenNames(measures.attentions.sequences[measures.sequence].tokens)[measures.token];
}

std::string about_output(const TokenMeasures& measures) {
  const std::string name = output_name(measures);
  if (measures.heads.empty())
    return fmt::format("The text has more than {} tokens: nothing is measured.", kMostMeasured);
  const std::string value = measures.score ? fmt::format("{} (a logit): {}", name, fixed_text(*measures.score, 5))
                                           : fmt::format("Log-probability of {}: {}, a probability of {}", name,
                                                         fixed_text(*measures.log_probability, 5),
                                                         fixed_text(exp(*measures.log_probability), 5));
  return value +
         ". Knock-out: by how much it falls if a word, or a key, is hidden from every query in all layers, or a head "
         "gives 0; below 0 it rises.";
}

constexpr const char* kAboutGradient =
    "Gradient: gradient with respect to the weights of attention, times the weights, summed over all queries, layers "
    "and heads (Barkan 2021, Chefer 2021).";

// The effect of each word, in the order of the text.
Section about_words(const TokenMeasures& measures) {
  const std::vector<std::string>& words = measures.attentions.sequences[measures.attentions.sites[0].keys].words.words;
  const TokenNames names(words);
  Block about, table;
  about.lines = {plain(about_output(measures))};
  if (measures.by_words.size() > 1) about.lines.push_back(plain(kAboutGradient));
  for (Line& line : about_cut(cut_of(measures.attentions))) about.lines.push_back(std::move(line));
  if (measures.by_words.empty()) return {0, "What it came from", {about}};
  const std::vector<double>& losses = measures.by_words.back().values;
  double most = 0;
  for (const double loss : losses) most = std::max(most, std::abs(loss));
  table.lines = {head_row(padded("word", kKeyWidth), measures.by_words)};
  for (std::size_t i = 0; i < words.size(); ++i) {
    Line line = number_row(padded(names.column(static_cast<std::int64_t>(i)), kKeyWidth), measures.by_words, i);
    const double part = most > 0 ? std::abs(losses[i]) / most : 0;
    const std::string bar(static_cast<std::size_t>(part * kLossBar + 0.5), losses[i] < 0 ? '-' : '#');
    if (!bar.empty()) line.push_back({" " + bar, Role::weight});
    table.lines.push_back(std::move(line));
  }
  return {0, "What it came from", {about, table}};
}

Section about_measures(const TokenMeasures& measures) {
  Block block;
  if (measures.attentions.outputs) {
    // Said above the words.
  } else if (measures.heads.empty()) {
    block.lines = {
        plain(fmt::format("The text has more than {} tokens: of these there is the rollout alone.", kMostMeasured))};
  } else if (measures.log_probability) {
    block.lines = {plain(fmt::format(
        "Log-probability of the token: {}. Knock-out: by how much it falls if the key is hidden from every query in "
        "all layers of its attention, or the head gives 0; below 0 it rises.",
        fixed_text(*measures.log_probability, 5)))};
  } else {
    block.lines = {
        plain("Knock-out: by how much the cosine of the token's last vector to what it was falls below 1 if the key is "
              "hidden from every query in all layers, or the head gives 0.")};
  }
  const auto has = [&](Measure measure) {
    const auto& by = measures.keys.front().by;
    return std::ranges::find(by, measure, &MeasuredBy::measure) != by.end();
  };
  const std::pair<Measure, const char*> lines[] = {
      {Measure::weight, "Weight: the mean over layers and heads. Where a token looks is not yet what came of it."},
      {Measure::value_norm, "Value norm: weight times length of the value as it leaves W_O, summed (Kobayashi 2020)."},
      {Measure::gradient,
       "Gradient: gradient of the log-probability with respect to the weight, times the weight, summed over all "
       "queries (Barkan 2021, Chefer 2021)."},
      {Measure::rollout,
       "Rollout: the token's row of the product of (A + I) / 2 over the layers, A the mean of the heads (Abnar "
       "2020)."}};
  for (Line& line : about_cut(cut_of(measures.attentions))) block.lines.push_back(std::move(line));
  for (const auto& [measure, text] : lines) {
    if (has(measure)) block.lines.push_back(plain(text));
  }
  if (has(Measure::knock_out)) {
    block.lines.push_back(
        plain("Ranks as knock-out: Spearman's rank correlation of the column with knock-out, on this text: 1 the same "
              "order, 0 none, -1 the reverse."));
  }
  return {0, "What the columns are", {block}};
}

std::string output_title(const TokenMeasures& measures) {
  return printable(measures.attentions.input + "  ->  ") + output_name(measures) +
         printable(without(measures.attentions));
}

}  // namespace

std::string words_to_text(const TokenMeasures& measures, const TextStyle& style) {
  require(measures.attentions.outputs.has_value(), "words are measured for what a head says alone");
  Explanation explanation;
  explanation.title = output_title(measures);
  explanation.sections = {about_words(measures)};
  return to_text(explanation, style);
}

std::string to_text(const TokenMeasures& measures, const TextStyle& style) {
  const auto& [sequences, sites, input, alignment, left_out, remarks, outputs] = measures.attentions;
  const TokenNames own(sequences[measures.sequence].tokens);
  Explanation explanation;
  explanation.title = outputs ? output_title(measures)
                              : fmt::format("Token {}, \"{}\": {}", measures.token, own[measures.token],
                                            input.empty() ? "what it owes to each key and head" : printable(input)) +
                                    printable(without(measures.attentions));
  if (outputs) explanation.sections.push_back(about_words(measures));
  for (const TokenMeasures::Keys& keys : measures.keys) {
    if (keys.by.empty()) continue;
    const AttentionSite& site = sites[keys.site];
    const TokenNames names(sequences[site.keys].tokens);
    const auto name = [&](std::size_t i) { return padded(names.column(static_cast<std::int64_t>(i)), kKeyWidth); };
    explanation.sections.push_back({0,
                                    "Keys" + (site.title.empty() ? "" : " of " + site.title),
                                    {table_of(fmt::format("{:<{}}", "key", kKeyWidth), keys.by, name, style)}});
  }
  if (!measures.heads.empty()) {
    const auto name = [&](std::size_t i) {
      const HeadIndex& head = measures.heads[i];
      return padded(fmt::format("{} {}.{}", sites[head.site].option(), head.layer, head.head), kHeadWidth);
    };
    explanation.sections.push_back(
        {0,
         "Heads, layer.head",
         {table_of(fmt::format("{:<{}}", "head", kHeadWidth), measures.by_heads, name, style)}});
  }
  explanation.sections.push_back(about_measures(measures));
  return to_text(explanation, style);
}

}  // namespace qkv
