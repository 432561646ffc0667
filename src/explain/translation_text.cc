// A translation and what its words attended to, as text: sections for the writer of text.cc.
#include <fmt/format.h>

#include <algorithm>

#include "explain/explanation_context.h"
#include "explain/heads_table.h"
#include "explain/numbers.h"
#include "explain/token_names.h"
#include "qkv/explain/explain_translation.h"

namespace qkv {
namespace {

constexpr std::size_t kMostWords = 5;   // shown for each target word
constexpr std::size_t kBar = 20;        // characters of a weight of 1
constexpr std::int64_t kMostBars = 12;  // source words that get a bar each

std::vector<Line> bars(const TranslationSurvey& survey, const TokenNames& sources, const TokenNames& targets) {
  std::vector<Line> lines;
  for (std::int64_t i = 0; i < survey.word_weights.size(0); ++i) {
    for (std::int64_t j = 0; j < survey.word_weights.size(1); ++j) {
      const double weight = survey.word_weights.view().at<double>({i, j});
      const auto length = static_cast<std::size_t>(weight * kBar + 0.5);
      lines.push_back({{j == 0 ? targets.column(i) : std::string(characters(targets.column(i)), ' '), Role::query},
                       {"  " + sources.column(j), Role::key},
                       {fmt::format(" {} ", fixed_text(weight, 3)), Role::weight},
                       {std::string(length, '#'), Role::weight}});
    }
  }
  return lines;
}

std::vector<Line> lists(const TranslationSurvey& survey, const TokenNames& sources, const TokenNames& targets,
                        std::size_t most) {
  std::vector<Line> lines;
  for (std::int64_t i = 0; i < survey.word_weights.size(0); ++i) {
    Line line{{targets.column(i), Role::query}, {"  ->  ", Role::none}};
    const std::vector<std::int64_t> keys = keys_by_weight(survey.word_weights, i);
    for (std::size_t n = 0; n < std::min(keys.size(), most); ++n) {
      line.push_back({n == 0 ? "" : ", ", Role::none});
      line.push_back({sources.unique(keys[n]), Role::key});
      line.push_back({" " + fixed_text(survey.word_weights.view().at<double>({i, keys[n]}), 3), Role::weight});
    }
    lines.push_back(line);
  }
  return lines;
}

Explanation words(const TranslationSurvey& survey, const TextStyle& style) {
  const TokenNames sources(survey.source_words), targets(survey.target_words);
  Block about, table;
  about.lines = {
      plain("Each word written, and the source words whose values it took, with their weights: the mean over "
            "the heads and layers of encoder-decoder attention.")};
  if (survey.cut > 0) {
    about.lines.push_back(plain(
        fmt::format("The last {} tokens of the text are cut off: the model has no positions for them.", survey.cut)));
  }
  const bool few = survey.word_weights.element_count() <= kMostBars;
  table.lines = few ? bars(survey, sources, targets)
                    : lists(survey, sources, targets, style.full ? survey.source_words.size() : kMostWords);
  Explanation explanation;
  explanation.title = printable(survey.source_text) + "  ->  " + printable(survey.target_text);
  explanation.sections = {{0, "What each word attended to", {about, table}}};
  return explanation;
}

std::string listed(const std::vector<std::string>& tokens) {
  const TokenNames names(tokens);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    text += (i > 0 ? ", " : "") + names.numbered(static_cast<std::int64_t>(i));
  }
  return text;
}

}  // namespace

std::string words_to_text(const TranslationSurvey& survey, const TextStyle& style) {
  return to_text(words(survey, style), style);
}

std::string to_text(const TranslationSurvey& survey, const TextStyle& style) {
  Explanation explanation = words(survey, style);
  Block source, read, written, about;
  source.lines = {plain("The encoder reads:  " + listed(survey.source))};
  read.lines = {plain("The decoder reads:  " + listed(survey.read))};
  written.lines = {plain("and writes:  " + listed(survey.target))};
  about.lines = {
      plain("Means over the queries. Entropy in nats: 0 if all weight goes to one token. Distance in tokens. "
            "Then the "
            "share of the weight that goes to the first token, the previous one, the next one, the one at the same "
            "position, and "
            "special tokens other than the first. One head in full: --attention, --layer and --head.")};
  explanation.sections.push_back({0, "Tokens", {source, read, written}});
  explanation.sections.push_back({0, "Heads", {about}});
  for (const auto& [title, heads] :
       {std::pair("Encoder self-attention: source tokens attend to source tokens (--attention encoder)",
                  &survey.encoder),
        std::pair("Masked decoder self-attention: tokens read attend to those before them (--attention decoder)",
                  &survey.decoder),
        std::pair("Encoder-decoder attention: tokens written attend to source tokens (--attention encoder-decoder)",
                  &survey.encoder_decoder)}) {
    Block table;
    table.lines = heads_table(*heads);
    explanation.sections.push_back({0, title, {table}});
  }
  return to_text(explanation, style);
}

}  // namespace qkv
