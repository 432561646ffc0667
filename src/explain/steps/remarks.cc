// The remarks around the eight steps: roles, who attends to whom, what the tutorials print, the check.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/mathematics.h"
#include "core/stop.h"
#include "explain/steps/explanation_context.h"
#include "explain/steps/text_parts.h"

namespace qkv::inline explaining {
namespace {

constexpr std::int64_t kTopKeys = 3;
constexpr double kNoticed = 0.001;

// The keys that query i weighs most, best first, negative weights by their size; ties go to the lower key. Beside the
// first, only those that a reader would notice. None if all weights are 0.
std::vector<std::int64_t> top_keys(const ExplanationContext& context, std::int64_t i) {
  const TensorView weights = context.run.weights.view().select(0, i);
  std::vector<std::int64_t> keys(static_cast<std::size_t>(context.count()));
  std::iota(keys.begin(), keys.end(), 0);
  const auto size = [&](std::int64_t j) { return std::abs(weights.at<double>({j})); };
  std::erase_if(keys, [&](std::int64_t j) { return !(size(j) > 0); });
  std::ranges::sort(keys,
                    [&](std::int64_t a, std::int64_t b) { return size(a) != size(b) ? size(a) > size(b) : a < b; });
  keys.resize(std::min<std::size_t>(keys.size(), kTopKeys));
  while (keys.size() > 1 && size(keys.back()) < kNoticed) keys.pop_back();
  return keys;
}

// Why query i has no top key.
const char* without_top_key(const ExplanationContext& context, std::int64_t i) {
  const TensorView weights = context.run.weights.view().select(0, i);
  for (std::int64_t j = 0; j < context.count(); ++j) {
    if (std::isnan(weights.at<double>({j}))) return " has weights that are not numbers (NaN)";
  }
  return context.substituted("weights") ? " attends to nobody: the weights put in are all 0"
                                        : " attends to nobody: everything is hidden from it";
}

// A scale that would spread the attention, if nearly every row now puts all its weight on one key; else 0.
double softer_scale(const ExplanationContext& context) {
  double top = 0, least = 0, most = 0;
  for (std::int64_t i = 0; i < context.count(); ++i) {
    check_stop();
    const TensorView weights = context.run.weights.view().select(0, i), logits = context.run.logits.view().select(0, i);
    double largest = 0;
    for (std::int64_t j = 0; j < context.count(); ++j) {
      largest = std::max(largest, weights.at<double>({j}));
      if (!std::isfinite(logits.at<double>({j}))) continue;
      least = std::min(least, logits.at<double>({j}));
      most = std::max(most, logits.at<double>({j}));
    }
    top += largest / static_cast<double>(context.count());
  }
  constexpr double kSaturated = 0.95, kGoodRange = 8;
  if (top < kSaturated || most - least < kGoodRange || !context.input.substitutes.empty()) return 0;
  const double scale = std::abs(context.run.scale) * kGoodRange / (most - least);
  const double unit = pow(10, std::floor(log10(scale)));
  return std::round(scale / unit) * unit;
}

// Inputs without effect on the output after this substitute.
const char* without_effect(const std::string& name) {
  if (name == "weights") return "; queries, keys, scores and masks change nothing after it";
  if (name == "logits") return "; queries, keys, scores, the scale and masks change nothing after it";
  return name == "scores" ? "; queries and keys change nothing after it" : "";
}

Tensor output_of(const ExplainInput& input, Score::Kind score, std::optional<Align> causal) {
  ExplainInput variant = input;
  variant.score = score;
  variant.causal = causal;
  return compute_intermediates(variant, {}).output;
}

}  // namespace

Line plain(std::string text) { return {{std::move(text)}}; }

std::vector<Line> about_cut(std::int64_t cut) {
  if (cut == 0) return {};
  return {plain(fmt::format("The last {} tokens of the text are cut off: the model has no positions for them.", cut))};
}

double sum_of_row(const TensorView& weights, std::int64_t row) {
  double sum = 0;
  for (std::int64_t j = 0; j < weights.size(1); ++j) sum += weights.at<double>({row, j});
  constexpr double kShown = 5e-6;  // half of the last decimal
  return std::abs(sum - 1) < kShown ? 1 : sum;
}

std::string about_row_sums(const TensorView& weights, const std::vector<std::string>& queries) {
  constexpr int kNamed = 3;
  std::string others;
  int count = 0;
  const auto look_at = [&](const TensorView& rows, const std::string& head) {
    for (std::int64_t i = 0; i < rows.size(0); ++i) {
      check_stop();
      const double sum = sum_of_row(rows, i);
      if (sum == 1 || ++count > kNamed) continue;
      others += fmt::format("{}{}{} ({})", count > 1 ? ", " : "", head, queries[static_cast<std::size_t>(i)],
                            number_text(sum));
    }
  };
  const bool heads = weights.rank() == 3;
  for (std::int64_t h = 0; h < (heads ? weights.size(0) : 1); ++h) {
    look_at(heads ? weights.select(0, h) : weights, heads ? fmt::format("head {}, ", h + 1) : "");
  }
  if (count == 0) return "Each row of weights adds up to 1.";
  const std::string more = count > kNamed ? fmt::format(" and {} more", count - kNamed) : "";
  return fmt::format("Each row of weights adds up to 1, but for {}{}.", others, more);
}

bool is_hidden(double logit, double score) { return logit == -HUGE_VAL && score != -HUGE_VAL; }

Section about_roles(const ExplanationContext& context, const std::optional<ExplainedMask>& mask) {
  Block block;
  block.lines = {
      {{"query  ", Role::query}, {"\"who matters to me\"   what an input looks for in the others"}},
      {{"key    ", Role::key}, {"\"how others find me\"  what an input can be found by"}},
      {{"value  ", Role::value}, {"\"what I pass on\"      what an input hands to those who attend to it"}},
      plain("Why three, and not one vector for all? Then how much i attends to j would always equal how much j "
            "attends to i, and an input could only pass on the very numbers that it is found by. Three weight "
            "matrices, learned together, keep looking, being found and passing on apart."),
  };
  std::string score;
  switch (context.input.score) {
    case Score::Kind::dot:
      score = "query . key";
      break;
    case Score::Kind::scaled_dot:
      score = "query . key / sqrt(key_dim)";
      break;
    case Score::Kind::additive:
      score = "score_v . tanh(score_w_query query + score_w_key key)";
      break;
    case Score::Kind::concat:
      score = "score_v . tanh(score_w [query; key])";
      break;
    case Score::Kind::bilinear:
      score = "query . score_w key";
      break;
  }
  if (context.input.scale)
    score = fmt::format("{} x ({})", number_text(*context.input.scale),
                        context.input.score == Score::Kind::scaled_dot ? "query . key" : score);
  Block formula;
  formula.lines = {{{"output", Role::output},
                    {" = softmax("},
                    {score, Role::score},
                    {") x "},
                    {"value", Role::value},
                    {fmt::format(", score \"{}\"", score_name(context.input.score))}}};
  if (mask && !context.substituted("weights")) {
    for (const std::string& rule : mask->rules) formula.lines.push_back(plain(rule));
  }
  for (const auto& [name, tensor] : context.input.substitutes) {
    formula.lines.push_back(
        plain(fmt::format("Substituted: {}. All that follows from it is recomputed{}.", name, without_effect(name))));
  }
  return {0, "Three roles", {block, formula}};
}

Section about_attention_between(const ExplanationContext& context) {
  Block block;
  add_lines(block, context.count(), context.most(20), [&](std::int64_t i) {
    Line line = {{context.input_name(i), Role::input}};
    const std::vector<std::int64_t> keys = top_keys(context, i);
    if (keys.empty()) line.push_back({without_top_key(context, i)});
    double last = 0;
    bool is_below = false;  // the most attended to
    for (std::size_t rank = 0; rank < keys.size(); ++rank) {
      const double weight = context.run.weights.view().at<double>({i, keys[rank]});
      const bool equal = rank > 0 && weight == last;
      line.push_back({rank == 0   ? " attends most to "
                      : equal     ? " and equally to "
                      : !is_below ? ", then to "
                                  : ", ",
                      Role::none});
      is_below = is_below || (rank > 0 && !equal);
      last = weight;
      append(line,
             {{context.input_name(keys[rank]), Role::input}, {" ("}, {fixed_text(weight, 5), Role::weight}, {")"}});
    }
    if (const double sum = sum_of_row(context.run.weights, i); !keys.empty() && sum != 1) {
      line.push_back({fmt::format("; its weights add up to {}, not to 1", number_text(sum))});
    }
    return line;
  });
  Section section{0, "Who attends to whom", {block}};
  if (!context.input.picture.empty()) {
    for (std::int64_t i = 0; i < std::min(context.count(), context.most(3)); ++i) {
      Block pictures;
      const auto draw = [&](const std::string& caption, std::int64_t j) {
        pictures.pictures.push_back(
            {caption, Tensor::copy(context.run.inputs.view().select(0, j).reshape(context.input.picture))});
      };
      draw(context.input_name(i) + " attends to", i);
      for (std::int64_t j : top_keys(context, i)) {
        draw(
            fmt::format("{} ({})", context.input_name(j), fixed_text(context.run.weights.view().at<double>({i, j}), 5)),
            j);
      }
      section.blocks.push_back(pictures);
    }
  }
  if (const double scale = softer_scale(context); scale > 0) {
    Block hint;
    hint.lines = {
        plain(fmt::format("Nearly all weight goes to one key per row, because the logits are far apart. A "
                          "smaller scale spreads it: try --scale {:g}",
                          scale))};
    section.blocks.push_back(hint);
  }
  return section;
}

std::vector<Section> about_tutorials(const ExplanationContext& context) {
  const ExplainInput& input = context.input;
  if (!input.tutorial || !input.substitutes.empty()) return {};
  const auto output = [&](const std::string& name, Score::Kind score, std::optional<Align> causal) {
    return Quantity{name, Role::output, output_of(input, score, causal), context.names("output"), false};
  };
  Block unscaled, scaled, look_ahead;
  unscaled.lines = {plain("As above: the scores go into softmax as they are.")};
  unscaled.quantities = {output("output, unscaled", Score::Kind::dot, {})};
  scaled.lines = {plain("Scaled by 1/sqrt(3), as in Transformers (--score scaled-dot):")};
  scaled.quantities = {output("output, scaled", Score::Kind::scaled_dot, {})};
  look_ahead.lines = {plain("Scaled, and nobody sees later inputs (--score scaled-dot --causal top-left):")};
  look_ahead.quantities = {output("output, scaled, look-ahead", Score::Kind::scaled_dot, Align::top_left)};

  Block trap;
  trap.lines = {
      plain("Many tutorials print [2.0 7.0 1.5], [2.0 8.0 0.0], [2.0 7.8 0.3] as the outputs of this example. These "
            "follow from weights that were picked by hand to be readable: [[0, 0.5, 0.5], [0, 1, 0], [0, 0.9, 0.1]]."),
      plain("They are no rounding of the true ones: 0.06338 rounds to 0.1, not to 0.0, and with all weights rounded "
            "to one decimal, output 1 would be [2.1 7.2 1.8]."),
      plain("To see their table, put their weights in place of the true ones and let the rest follow:"),
      {{"  qkv explain --substitute 'weights=[[0,0.5,0.5],[0,1,0],[0,0.9,0.1]]'", Role::weight}}};
  return {{0, "The same example three ways", {unscaled, scaled, look_ahead}},
          {0, "Why tutorials print 2.0 7.0 1.5", {trap}}};
}

Section about_check(const ExplanationContext& context, const std::string& target) {
  const double difference = larger(context.run.reference_difference, context.truth.reference_difference);
  Block block;
  block.lines = {
      plain(fmt::format("The numbers are those of the production kernel's own run (f64, CPU target {}){}.", target,
                        context.input.substitutes.empty() ? "" : ", but for those put in")),
      plain(fmt::format("Largest difference from the reference, in plain loops: {}", number_text(difference)))};
  return {0, "Check", {block}};
}

}  // namespace qkv::inline explaining
