// A survey of heads, those that stand out, and the words that its alignment joins, as text: sections for the writer of
// text.cc.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/mathematics.h"
#include "explain/observe/left_out_masks.h"
#include "explain/observe/require.h"
#include "explain/observe/token_names.h"
#include "explain/steps/explanation_context.h"
#include "explain/steps/text_parts.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/token_measures.h"

namespace qkv {
namespace {

constexpr std::size_t kMostStriking = 5;

// The kind of a head, and its strength: its share, or how far its entropy is below the largest.
struct Striking {
  const HeadSurvey::Entry* head;
  double strength;
  std::string text;
};

struct PatternShare {
  HeadPattern pattern;
  double HeadSummary::* share;
  const char* where;
};
constexpr PatternShare kPatternShares[] = {
    {HeadPattern::previous, &HeadSummary::previous, "the token before"},
    {HeadPattern::next, &HeadSummary::next, "the token after"},
    {HeadPattern::itself, &HeadSummary::itself, "the token itself"},
    {HeadPattern::first, &HeadSummary::first, "the first token"},
    {HeadPattern::induction, &HeadSummary::induction, "what is behind earlier copies of a token"},
    {HeadPattern::duplicate, &HeadSummary::duplicate, "earlier copies of a token"},
    {HeadPattern::separators, &HeadSummary::separators, "special tokens"}};

Striking striking_of(const HeadSurvey& survey, const HeadSurvey::Entry& head) {
  for (const auto& [pattern, share, where] : kPatternShares) {
    if (head.pattern != pattern) continue;
    const double value = head.summary.*share;
    return {&head, value, fmt::format("{} of its weight goes to {}", fixed_text(value, 3), where)};
  }
  if (head.pattern != HeadPattern::alignment) return {&head, 0, ""};
  const double entropy = head.summary.entropy, largest = largest_entropy(survey.attentions, head.index.site);
  return {&head, 1 - entropy / largest,
          fmt::format("each token written attends to few source tokens: entropy {} of at most {}",
                      fixed_text(entropy, 3), fixed_text(largest, 3))};
}

// One section with the most striking heads by name; none if no head passes a threshold.
std::vector<Section> striking_heads(const HeadSurvey& survey) {
  std::vector<Striking> all;
  for (const HeadSurvey::Entry& head : survey.heads) {
    if (Striking one = striking_of(survey, head); !one.text.empty()) all.push_back(std::move(one));
  }
  if (all.empty()) return {};
  std::ranges::stable_sort(all, std::ranges::greater(), &Striking::strength);
  Block block;
  for (const Striking& one : std::span(all).first(std::min(all.size(), kMostStriking))) {
    const AttentionSite& site = survey.attentions.sites[one.head->index.site];
    block.lines.push_back(
        {{site.title.empty() ? "" : site.title + ", ", Role::none},
         {fmt::format("layer {}, head {}: ", one.head->index.layer, one.head->index.head), Role::none},
         {name_of(one.head->pattern), Role::weight},
         {"; " + one.text, Role::none}});
  }
  return {{0, "The most striking heads", {block}}};
}

constexpr std::size_t kMostWords = 5;   // shown for each word of the output
constexpr std::size_t kBar = 20;        // characters of a weight of 1
constexpr std::int64_t kMostBars = 12;  // source words that get a bar each
constexpr double kRemarkable = 0.5;     // a share of this size is coloured

std::vector<Line> bars(const HeadSurvey& survey, const TokenNames& sources, const TokenNames& outputs) {
  std::vector<Line> lines;
  for (std::int64_t i = 0; i < survey.word_alignment.size(0); ++i) {
    for (std::int64_t j = 0; j < survey.word_alignment.size(1); ++j) {
      const double weight = survey.word_alignment.view().at<double>({i, j});
      const auto length = static_cast<std::size_t>(weight * kBar + 0.5);
      lines.push_back({{j == 0 ? outputs.column(i) : std::string(characters(outputs.column(i)), ' '), Role::query},
                       {"  " + sources.column(j), Role::key},
                       {fmt::format(" {} ", fixed_text(weight, 3)), Role::weight},
                       {std::string(length, '#'), Role::weight}});
    }
  }
  return lines;
}

std::vector<Line> lists(const HeadSurvey& survey, const TokenNames& sources, const TokenNames& outputs,
                        std::size_t most) {
  std::vector<Line> lines;
  for (std::int64_t i = 0; i < survey.word_alignment.size(0); ++i) {
    Line line{{outputs.column(i), Role::query}, {"  ->  ", Role::none}};
    const std::vector<std::int64_t> keys = keys_by_weight(survey.word_alignment, i);
    for (std::size_t n = 0; n < std::min(keys.size(), most); ++n) {
      line.push_back({n == 0 ? "" : ", ", Role::none});
      line.push_back({sources.unique(keys[n]), Role::key});
      line.push_back({" " + fixed_text(survey.word_alignment.view().at<double>({i, keys[n]}), 3), Role::weight});
    }
    lines.push_back(line);
  }
  return lines;
}

// The tokens that were written, what else might have been, and what each layer would have written.
Section written_section(const Alignment& alignment, const TextStyle& style) {
  Block about, table;
  about.lines = {
      plain("Each token with its probability, then the most probable others. Under it what each layer would have "
            "written if it were the last one: final norm and output on what it passes on.")};
  std::vector<std::string> tokens;
  for (const WrittenToken& one : alignment.written) tokens.push_back(one.token);
  const TokenNames names(tokens, 1);  // the first token was given
  for (std::size_t i = 0; i < alignment.written.size(); ++i) {
    const WrittenToken& one = alignment.written[i];
    if (one.layers.empty()) continue;  // of the prompt
    Line line{{names.column(static_cast<std::int64_t>(i)), Role::query},
              {" " + fixed_text(one.probability, 3) + " ", Role::weight}};
    for (const TokenProbability& other : one.candidates) {
      if (other.id == one.id) continue;
      line.push_back({"  " + printable(other.token), Role::key});
      line.push_back({" " + fixed_text(other.probability, 3), Role::weight});
    }
    table.lines.push_back(std::move(line));
    Line layers{{std::string(characters(names.column(0)), ' '), Role::none}};
    for (std::size_t begin = 0, end = 0; begin < one.layers.size(); begin = end) {
      while (end < one.layers.size() &&
             (end == begin || (!style.full && one.layers[end].best.id == one.layers[begin].best.id))) {
        ++end;
      }
      const std::string last = end - begin > 1 ? fmt::format("-{}", end - 1) : "";
      layers.push_back({fmt::format(" {}{} ", begin, last), Role::none});
      layers.push_back({printable(one.layers[begin].best.token), Role::key});
    }
    table.lines.push_back(std::move(layers));
  }
  return {0, "What else it might have written, and what each layer would have", {about, table}};
}

constexpr double kProbable = 0.5;  // below it something else is as probable

// The words of the output, with a mark behind those that are not probable: a product over their tokens.
std::vector<std::string> marked_words(const Alignment& alignment) {
  std::vector<double> probabilities(alignment.output.words.size(), 1.0);
  for (std::size_t i = 0; i < alignment.written.size(); ++i) {
    const std::int64_t word = alignment.output.word_of[i];
    if (word >= 0) probabilities[static_cast<std::size_t>(word)] *= alignment.written[i].probability;
  }
  std::vector<std::string> words = alignment.output.words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] += probabilities[i] < kProbable ? " (?)" : "";
  return words;
}

Explanation words(const HeadSurvey& survey, const TextStyle& style) {
  const auto& alignment = survey.attentions.alignment;
  require(alignment.has_value(), "words are aligned where a text was written from another alone");
  const std::vector<std::string>& source_words = alignment->source.words;
  const bool continues = alignment->is_continuation;
  const std::vector<std::string> output_words = continues ? alignment->output.words : marked_words(*alignment);
  const auto given = std::ssize(alignment->written) + 1 - std::ssize(output_words);
  const TokenNames sources(source_words), outputs(output_words, continues ? given : 0);
  Block about, table;
  about.lines = {plain(
      continues
          ? "Each token written, and the tokens that it needs: by how much its log-probability falls when one "
            "of them is hidden from attention in all layers, as shares that sum to 1."
          : "Each word written, and the source words that it needs: by how much its log-probability falls when one of "
            "them is hidden from encoder-decoder attention, as shares that sum to 1.")};
  bool needs_all = true;
  for (std::int64_t i = 0; i < survey.word_alignment.size(0); ++i) {
    needs_all = needs_all && sum_of_row(survey.word_alignment, i) != 0;
  }
  if (!needs_all)
    about.lines.push_back(plain("Where all shares of a word are 0, hiding a source word makes it no less probable."));
  if (output_words != alignment->output.words) {
    about.lines.push_back(plain("(?) marks words that the model found less probable than 0.5: they may be wrong."));
  }
  for (Line& line : about_cut(alignment->cut)) about.lines.push_back(std::move(line));
  const bool few = survey.word_alignment.element_count() <= kMostBars;
  table.lines = few ? bars(survey, sources, outputs)
                    : lists(survey, sources, outputs, style.full ? source_words.size() : kMostWords);
  if (survey.word_alignment.element_count() == 0) {
    about.lines = {plain(fmt::format("The text has more than {} tokens: words are not aligned.", kMostMeasured))};
  }
  Explanation explanation;
  explanation.title =
      printable(alignment->source_text + "  ->  " + alignment->output_text + without(survey.attentions));
  explanation.sections = {
      {0, continues ? "What each token was made from" : "What each word was made from", {about, table}}};
  if (continues) explanation.sections.push_back(written_section(*alignment, style));
  return explanation;
}

// "Words of several tokens: welcome = w + el + c + ome."; empty if there are none.
std::string joined_words(const Attentions& attentions) {
  std::string text;
  for (const AttentionSequence& sequence : attentions.sequences) {
    for (std::size_t word = 0; word < sequence.words.words.size(); ++word) {
      std::string pieces;
      std::int64_t count = 0;
      for (std::size_t i = 0; i < sequence.words.word_of.size(); ++i) {
        if (sequence.words.word_of[i] != static_cast<std::int64_t>(word)) continue;
        pieces += (count++ == 0 ? "" : " + ") + sequence.tokens[i];
      }
      const std::string joined = sequence.words.words[word] + " = " + pieces;
      if (count > 1 && text.find(joined) == std::string::npos) text += (text.empty() ? "" : ", ") + joined;
    }
  }
  return text.empty() ? text : "Words of several tokens: " + printable(text) + ".";
}

// Each sequence where an attention first needs it: its keys, then its queries.
Section token_lists(const Attentions& attentions) {
  Section section{0, "Tokens", {}};
  std::vector<bool> listed(attentions.sequences.size());
  const auto list = [&](std::size_t i) {
    if (listed[i]) return;
    listed[i] = true;
    const TokenNames names(attentions.sequences[i].tokens);
    std::string text = attentions.sequences[i].caption;
    for (std::size_t token = 0; token < attentions.sequences[i].tokens.size(); ++token) {
      text += (token > 0 ? ", " : "") + names.numbered(static_cast<std::int64_t>(token));
    }
    Block block;
    block.lines = {plain(text)};
    section.blocks.push_back(block);
  };
  for (const AttentionSite& site : attentions.sites) {
    list(site.keys);
    list(site.queries);
  }
  if (const std::string text = joined_words(attentions); !text.empty()) {
    Block block;
    block.lines = {plain(text)};
    section.blocks.push_back(block);
  }
  return section;
}

// A share of the weight as a column.
struct ShareColumn {
  const char* name;
  std::size_t width;
  double HeadSummary::* share;
};

// Between two sequences positions say nothing, and a language model sees nothing behind a token.
std::vector<ShareColumn> share_columns(bool between, bool language) {
  const ShareColumn first{"first", 6, &HeadSummary::first}, previous{"previous", 8, &HeadSummary::previous},
      itself{"itself", 6, &HeadSummary::itself}, separators{"separators", 10, &HeadSummary::separators};
  if (between) return {first, separators};
  if (!language) return {first, previous, {"next", 6, &HeadSummary::next}, itself, separators};
  return {
      first, previous, itself, {"induction", 9, &HeadSummary::induction}, {"duplicate", 9, &HeadSummary::duplicate}};
}

// The heads of one attention, a line each.
Block heads_table(const HeadSurvey& survey, std::size_t number) {
  const AttentionSite& site = survey.attentions.sites[number];
  const auto& alignment = survey.attentions.alignment;
  const bool between = site.queries != site.keys, language = alignment && alignment->is_continuation;
  const bool has_distance = !between && !language;
  const bool has_values = std::ranges::any_of(
      survey.heads, [](const HeadSurvey::Entry& entry) { return entry.value_lengths.element_count() > 0; });
  const std::vector<ShareColumn> shares = share_columns(between, language);
  const double largest = largest_entropy(survey.attentions, number);
  std::string head = fmt::format("{:>5} {:>4} {:>11} {:>5}", "layer", "head", "entropy/max", "keys");
  if (has_distance) head += fmt::format(" {:>9}", "distance");
  for (const ShareColumn& column : shares) head += fmt::format(" {:>{}}", column.name, column.width);
  if (has_values) head += fmt::format(" {:>10}", "value norm");
  Block table;
  table.lines = {plain(head)};
  for (const auto& [index, summary, pattern, value_lengths, value_norm, weights, map] : survey.heads) {
    if (index.site != number) continue;
    Line line = {{fmt::format("{:>5} {:>4}", index.layer, index.head), Role::none},
                 {fmt::format(" {:>5}/{} {:>5}", fixed_text(summary.entropy, 3), fixed_text(largest, 3),
                              fixed_text(exp(summary.entropy), 1)),
                  Role::score}};
    if (has_distance) line.push_back({fmt::format(" {:>9}", fixed_text(summary.distance, 2)), Role::score});
    for (const ShareColumn& column : shares) {
      const double share = summary.*column.share;
      line.push_back({fmt::format(" {:>{}}", fixed_text(share, 3), column.width),
                      share >= kRemarkable ? Role::weight : Role::none});
    }
    if (has_values) line.push_back({fmt::format(" {:>10}", fixed_text(value_norm, 3)), Role::value});
    if (pattern != HeadPattern::none) line.push_back({fmt::format("  {}", name_of(pattern)), Role::none});
    table.lines.push_back(std::move(line));
  }
  return table;
}

constexpr const char* kAboutEntropy =
    "Entropy in nats: 0 if all weight goes to one token; max: if it is spread evenly over all that are seen. Keys: "
    "exp(entropy), the effective number of keys: so many with equal weights have this entropy.";

constexpr const char* kSurveyLegend =
    "Value norm: weight times length of the value as it leaves the output projection, summed over the keys (Kobayashi "
    "2020). The last column names what a head does: to what at least half of its weight goes; alignment: between two "
    "texts, with at most half of the largest entropy; spread: with at least 0.9 of it.";

constexpr const char* kAboutColumns =
    "Distance in tokens. Then the share of the weight that goes to the first token, the previous one, the next one, "
    "the "
    "token itself, and special tokens other than the first.";
constexpr const char* kAboutLanguage =
    "Then the share of the weight that goes to the first token, the previous one, the token itself; and where the "
    "token was there before, to what is behind its earlier copies (induction, Olsson 2022), and "
    "to the copies (duplicate).";

Section heads_of_one_attention(const HeadSurvey& survey) {
  const bool language = survey.attentions.alignment.has_value();
  const std::size_t count = survey.attentions.sequences.front().tokens.size();
  Block about;
  about.lines = {plain(fmt::format("Means over the {} tokens. {}", count, kAboutEntropy)),
                 plain(language ? kAboutLanguage : kAboutColumns), plain(kSurveyLegend)};
  return {0, "Heads (one of them in full: --layer and --head)", {about, heads_table(survey, 0)}};
}

std::vector<Section> heads_of_each_attention(const HeadSurvey& survey) {
  Block about;
  about.lines = {plain(fmt::format("Means over the queries. {} {} One head in full: --attention, --layer and --head.",
                                   kAboutEntropy, kAboutColumns)),
                 plain(kSurveyLegend)};
  std::vector<Section> sections = {{0, "Heads", {about}}};
  for (std::size_t i = 0; i < survey.attentions.sites.size(); ++i) {
    const AttentionSite& site = survey.attentions.sites[i];
    sections.push_back(
        {0, fmt::format("{}: {} (--attention {})", site.title, site.caption, site.option()), {heads_table(survey, i)}});
  }
  return sections;
}

// Every head as a map, a block for each layer.
std::vector<Section> head_maps(const HeadSurvey& survey) {
  std::vector<Section> sections;
  for (const HeadSurvey::Entry& entry : survey.heads) {
    if (entry.weights.element_count() == 0) continue;
    const AttentionSite& site = survey.attentions.sites[entry.index.site];
    const std::string title =
        (site.title.empty() ? "Heads" : site.title) + " as maps: a row for each query, LAYER.HEAD";
    if (sections.empty() || sections.back().title != title) sections.push_back({0, title, {}});
    std::vector<Block>& blocks = sections.back().blocks;
    if (static_cast<std::int64_t>(blocks.size()) <= entry.index.layer) blocks.emplace_back();
    const std::string pattern = entry.pattern == HeadPattern::none ? "" : fmt::format(" {}", name_of(entry.pattern));
    blocks.back().quantities.push_back({.name = fmt::format("{}.{}{}", entry.index.layer, entry.index.head, pattern),
                                        .role = Role::weight,
                                        .values = entry.weights,
                                        .rows = {}});
  }
  return sections;
}

}  // namespace

std::string words_to_text(const HeadSurvey& survey, const TextStyle& style) {
  return to_text(words(survey, style), style);
}

std::string to_text(const HeadSurvey& survey, const TextStyle& style) {
  Explanation explanation;
  explanation.title = "What the heads attend to" + printable(without(survey.attentions));
  if (survey.attentions.alignment) explanation = words(survey, style);
  for (Section& section : striking_heads(survey)) explanation.sections.push_back(std::move(section));
  explanation.sections.push_back(token_lists(survey.attentions));
  if (!survey.attentions.remarks.empty()) {
    Block block;
    for (const std::string& remark : survey.attentions.remarks) block.lines.push_back(plain(remark));
    explanation.sections.push_back({0, "To be known", {block}});
  }
  if (survey.attentions.sites.size() == 1 && survey.attentions.sites[0].title.empty()) {
    explanation.sections.push_back(heads_of_one_attention(survey));
  } else {
    for (Section& section : heads_of_each_attention(survey)) explanation.sections.push_back(std::move(section));
  }
  if (style.heat) {
    for (Section& section : head_maps(survey)) explanation.sections.push_back(std::move(section));
  }
  return to_text(explanation, style);
}

}  // namespace qkv
