// A survey of heads, or one head in full, as text: sections for the writer of text.cc.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "explain/numbers.h"
#include "explain/story.h"
#include "qkv/explain_model.h"

namespace qkv {
namespace {

constexpr std::size_t kMostKeys = 5;    // shown for each token that looks
constexpr std::size_t kMostRows = 20;   // of the table of one token's keys
constexpr double kRemarkable = 0.5;     // a share of this size is coloured
constexpr std::size_t kMostToken = 16;  // characters that a column of tokens gives way for

// A vocabulary is a stranger's text: nothing of it may command a terminal.
std::string printable(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool high_control = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (high_control) text[i + 1] = '?';
    if (high_control || byte < ' ' || byte == 0x7f) text[i] = '?';
  }
  return text;
}

std::size_t characters(const std::string& text) {  // bytes of UTF-8 that begin one
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// Tokens as they are shown, and in columns of one width.
class TokenNames {
 public:
  explicit TokenNames(const std::vector<std::string>& tokens) {
    for (const std::string& token : tokens) {
      names_.push_back(printable(token));
      width_ = std::max(width_, std::min(characters(names_.back()), kMostToken));
    }
  }
  std::string operator[](std::int64_t i) const { return names_[static_cast<std::size_t>(i)]; }
  std::string numbered(std::int64_t i) const { return fmt::format("{} {}", i, (*this)[i]); }
  // Tells apart those that read the same: "the (7)".
  std::string unique(std::int64_t i) const {
    const bool alone = std::count(names_.begin(), names_.end(), (*this)[i]) == 1;
    return alone ? (*this)[i] : fmt::format("{} ({})", (*this)[i], i);
  }
  std::string column(std::int64_t i) const {
    const std::string blanks(width_ - std::min(characters((*this)[i]), width_), ' ');
    return fmt::format("{:>3} {}{}", i, (*this)[i], blanks);
  }

 private:
  std::vector<std::string> names_;
  std::size_t width_ = 1;
};

double element(const Tensor& tensor, std::int64_t i, std::int64_t j) { return tensor.view().at<double>({i, j}); }

Section looks(const HeadLook& look, const TokenNames& names) {
  Block block;
  block.lines = {plain("Each token, and the tokens that it takes most from, with their weights:")};
  for (std::int64_t i = 0; i < look.weights.size(0); ++i) {
    Line line{{names.column(i), Role::query}, {"  ->  ", Role::none}};
    const std::vector<std::int64_t> keys = keys_by_weight(look.weights, i);
    for (std::size_t n = 0; n < std::min(keys.size(), kMostKeys); ++n) {
      line.push_back({(n == 0 ? "" : ", "), Role::none});
      line.push_back({names.unique(keys[n]), Role::key});
      line.push_back({fmt::format(" {:.3f}", element(look.weights, i, keys[n])), Role::weight});
    }
    block.lines.push_back(line);
  }
  return {0, "Who attends to whom", {block}};
}

Section query_step(const HeadLook& look, const TokenNames& names, std::int64_t token) {
  const std::int64_t head_dim = look.query.size(1), count = look.query.size(0);
  Block block;
  block.lines = {plain(fmt::format(
      "queries of all heads = inputs x w_query + b_query: {} x {} -> {}; head {} owns {} of "
      "them: {}.",
      to_string(Dims{count, look.model_dim}), to_string(Dims{look.model_dim, look.heads * head_dim}),
      to_string(Dims{count, look.heads, head_dim}), look.place.head, head_dim, to_string(look.query.shape())))};
  std::string others;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i != token && look.tokens[static_cast<std::size_t>(i)] == look.tokens[static_cast<std::size_t>(token)]) {
      others += (others.empty() ? "" : ", ") + std::to_string(i);
    }
  }
  if (!others.empty()) {
    block.lines.push_back(
        plain(fmt::format("The token occurs several times: this is number {}; also at {} "
                          "(--token takes a number, too).",
                          token, others)));
  }
  block.quantities = {{fmt::format("query of \"{}\"", names[token]),
                       Role::query,
                       Tensor::copy(look.query.view().select(0, token)),
                       {},
                       false}};
  return {1, fmt::format("The query of token {}, \"{}\"", token, names[token]), {block}};
}

Section weights_step(const HeadLook& look, const TokenNames& names, std::int64_t token) {
  const std::int64_t count = look.key.size(0), head_dim = look.key.size(1);
  Block formulas, block;
  formulas.lines = {
      plain(fmt::format("score = query . key: {} with each row of {} -> {}", to_string(Dims{head_dim}),
                        to_string(look.key.shape()), to_string(Dims{count}))),
      plain(fmt::format("logit = score x {} (1/sqrt({})): {}", number_text(look.scale), head_dim,
                        to_string(Dims{count}))),
      plain(fmt::format("weight = softmax of the logits, e^logit / (sum of all e^logit): {}, which sum to 1",
                        to_string(Dims{count})))};
  block.lines.push_back({{fmt::format("{:<{}}", "key", characters(names.column(0))), Role::key},
                         {fmt::format("{:>12}{:>12}", "score", "logit"), Role::score},
                         {fmt::format("{:>12}", "weight"), Role::weight}});
  const std::vector<std::int64_t> keys = keys_by_weight(look.weights, token);
  for (std::size_t n = 0; n < std::min(keys.size(), kMostRows); ++n) {
    const std::int64_t key = keys[n];
    block.lines.push_back(
        {{names.column(key), Role::key},
         {fmt::format("{:>12.5f}{:>12.5f}", element(look.scores, token, key), element(look.logits, token, key)),
          Role::score},
         {fmt::format("{:>12.5f}", element(look.weights, token, key)), Role::weight}});
  }
  if (keys.size() > kMostRows) {
    block.lines.push_back(plain(fmt::format("(and {} more: all of them with --json)", keys.size() - kMostRows)));
  }
  return {2, "Scores, logits and weights of the keys, top keys first", {formulas, block}};
}

Section values_step(const HeadLook& look, const TokenNames& names, std::int64_t token) {
  const std::vector<std::int64_t> keys = keys_by_weight(look.weights, token);
  const std::size_t shown = std::min(keys.size(), kMostKeys);
  Block block;
  block.lines = {plain(
      fmt::format("The values of the top keys, {} numbers each, with the weights they go in by:", look.value.size(1)))};
  for (std::size_t n = 0; n < shown; ++n) {
    block.lines.push_back({{names.column(keys[n]), Role::key},
                           {fmt::format("  {:.5f}", element(look.weights, token, keys[n])), Role::weight},
                           {" x ", Role::none},
                           {vector_text(look.value.view().select(0, keys[n])), Role::value}});
  }
  return {3, "Values", {block}};
}

Section output_step(const HeadLook& look, const TokenNames& names, std::int64_t token) {
  Block block;
  block.lines = {plain(fmt::format("output = the sum of weight x value over all keys: {} x {} -> {}",
                                   to_string(Dims{look.value.size(0)}), to_string(look.value.shape()),
                                   to_string(Dims{look.value.size(1)}))),
                 plain(fmt::format("The outputs of the {} heads of layer {}, side by side, go on to the output "
                                   "projection.",
                                   look.heads, look.place.layer))};
  block.quantities = {{fmt::format("output for \"{}\"", names[token]),
                       Role::output,
                       Tensor::copy(look.output.view().select(0, token)),
                       {},
                       false}};
  return {4, "The head's output", {block}};
}

Section about_origin(const HeadLook& look) {
  Block block;
  block.lines = {
      plain(fmt::format("Queries, keys, values, logits, weights and outputs are those of the kernel's own run "
                        "(f32, target {}); only the scores before the scale are computed for show, in f64, "
                        "from its queries and keys.",
                        look.target)),
      plain(fmt::format("Largest differences over all tokens: logits from scale x scores {}, outputs from "
                        "weights x values in f64 {}.",
                        number_text(look.logits_difference), number_text(look.output_difference)))};
  return {0, "Where the numbers come from", {block}};
}

Line summary_line(const HeadSurvey::Entry& entry) {
  const HeadSummary& summary = entry.summary;
  Line line = {{fmt::format("{:>5} {:>4}", entry.place.layer, entry.place.head), Role::none},
               {fmt::format(" {:>8.3f} {:>9.2f}", summary.entropy, summary.distance), Role::score}};
  for (const double share : {summary.first, summary.previous, summary.next, summary.itself, summary.separators}) {
    line.push_back({fmt::format(" {:>10.3f}", share), share >= kRemarkable ? Role::weight : Role::none});
  }
  return line;
}

}  // namespace

std::string to_text(const HeadSurvey& survey, const TextStyle& style) {
  const TokenNames names(survey.tokens);
  std::string tokens;
  for (std::size_t i = 0; i < survey.tokens.size(); ++i) {
    tokens += (i > 0 ? ", " : "") + names.numbered(static_cast<std::int64_t>(i));
  }
  Block listed, about, table;
  listed.lines = {plain(tokens)};
  about.lines = {
      plain(fmt::format("Means over the {} tokens. Entropy in nats: 0 if all weight goes to one token, {:.3f} if it is "
                        "spread evenly.",
                        survey.tokens.size(), std::log(static_cast<double>(survey.tokens.size())))),
      plain("Distance in tokens. Then the share of the weight that goes to the first token, the previous one, the next "
            "one, the token itself, and special tokens other than the first.")};
  table.lines = {plain(fmt::format("{:>5} {:>4} {:>8} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10}", "layer", "head",
                                   "entropy", "distance", "first", "previous", "next", "itself", "separators"))};
  for (const HeadSurvey::Entry& entry : survey.heads) table.lines.push_back(summary_line(entry));
  Explanation explanation;
  explanation.title = "What the heads look at";
  explanation.sections = {{0, "Tokens", {listed}},
                          {0, "Heads (one of them in full: --layer and --head)", {about, table}}};
  return to_text(explanation, style);
}

std::string to_text(const HeadLook& look, std::optional<std::int64_t> token, const TextStyle& style) {
  const TokenNames names(look.tokens);
  Explanation explanation;
  explanation.title = fmt::format("Layer {}, head {}", look.place.layer, look.place.head);
  explanation.sections = {looks(look, names)};
  if (token) {
    for (const auto& step : {query_step, weights_step, values_step, output_step}) {
      explanation.sections.push_back(step(look, names, *token));
    }
  }
  explanation.sections.push_back(about_origin(look));
  return to_text(explanation, style);
}

}  // namespace qkv
