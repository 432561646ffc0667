// What a report holds as HTML tables: numbers with five decimals.
#include "explain/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/stop.h"
#include "explain/html_table.h"
#include "explain/html_text.h"
#include "explain/numbers.h"

namespace qkv::inline explaining {
namespace {

using Names = std::vector<std::string>;

std::string heading(const std::string& text) { return html_element("h3", html_text(text)) + "\n"; }

constexpr std::array<const char*, 7> kMeasures = {"entropy", "distance", "first",     "previous",
                                                  "next",    "itself",   "separators"};

std::string measure_cells(const HeadSummary& summary) {
  std::string cells;
  for (double value : {summary.entropy, summary.distance, summary.first, summary.previous, summary.next, summary.itself,
                       summary.separators}) {
    cells += html_cell(value);
  }
  return cells;
}

std::string head_name(const HeadIndex& index) { return fmt::format("layer {}, head {}", index.layer, index.head); }

std::string measures(const HeadSurvey& survey, std::size_t site) {
  Names names(kMeasures.begin(), kMeasures.end());
  names.insert(names.end(), {"value norm", "pattern"});
  std::string text = "<table>" +
                     html_element("caption", "Means over the queries; entropy in nats, distance in tokens") + "\n" +
                     html_column_heads(names, true);
  for (const HeadSurvey::Entry& entry : survey.heads) {
    if (entry.index.site != site) continue;
    text += html_element("tr", html_row_head(head_name(entry.index)) + measure_cells(entry.summary) +
                                   html_cell(entry.value_norm) + html_element("td", name_of(entry.pattern))) +
            "\n";
  }
  return text + "</table>\n";
}

std::string written(const Alignment& alignment) {
  std::string text = "<table>" + html_element("caption", "Tokens written, and the most probable instead") + "\n";
  for (const WrittenToken& token : alignment.written) {
    std::string row = html_row_head(token.token) + html_cell(token.probability);
    for (const TokenProbability& one : token.candidates) row += html_row_head(one.token) + html_cell(one.probability);
    text += html_element("tr", row) + "\n";
  }
  return text + "</table>\n";
}

}  // namespace

std::string report_tables(const Explanation& explanation) {
  const StopScope stop(explanation.stop);
  std::string text;
  for (const Section& section : explanation.sections) {
    check_stop();
    text += heading(section.number > 0 ? fmt::format("{}. {}", section.number, section.title) : section.title);
    for (const Block& block : section.blocks) {
      for (const Line& line : block.lines) {
        std::string words;
        for (const Span& span : line) words += span.text;
        text += html_element("p", html_text(words)) + "\n";
      }
      for (const Quantity& one : block.quantities) text += html_table(one.name, one.values, one.rows, one.columns);
    }
  }
  return text;
}

std::string report_tables(const HeadSurvey& survey) {
  const auto& [sequences, sites, input, alignment, left_out] = survey.attentions;
  std::string text;
  for (const AttentionSequence& sequence : sequences) {
    std::string tokens;
    for (const std::string& token : sequence.tokens) tokens += " <bdi>" + html_text(token) + "</bdi>";
    text += html_element("p", html_text(sequence.caption) + tokens) + "\n";
  }
  if (alignment && survey.word_weights.element_count() > 0) {
    const Names &targets = alignment->target.words, &sources = alignment->source.words;
    text += html_table("Which words each word was made from", survey.word_alignment, targets, sources);
    text += html_table("Which words attend to which", survey.word_weights, targets, sources);
  }
  if (alignment) text += written(*alignment);
  for (std::size_t s = 0; s < sites.size(); ++s) {
    const AttentionSite& site = sites[s];
    const Names &queries = sequences[site.queries].tokens, &keys = sequences[site.keys].tokens;
    text += heading(site.title.empty() ? "Attention" : site.title) + measures(survey, s);
    if (std::max(std::ssize(queries), std::ssize(keys)) > AttentionMaps::kWhole) {
      text += html_element(
                  "p", fmt::format("The {} x {} weights of each head are in no table.", queries.size(), keys.size())) +
              "\n";
      continue;
    }
    for (const HeadSurvey::Entry& entry : survey.heads) {
      if (entry.index.site != s || entry.weights.element_count() == 0) continue;
      text += html_table("weights, " + head_name(entry.index), entry.weights, queries, keys);
    }
  }
  return text;
}

std::string report_tables(const HeadTrace& trace) {
  std::string text = html_table("query", trace.query, trace.tokens) + html_table("key", trace.key, trace.keys) +
                     html_table("value", trace.value, trace.keys);
  for (const auto& [name, tensor] :
       {std::pair("scores", &trace.scores), std::pair("logits", &trace.logits), std::pair("weights", &trace.weights),
        std::pair("weight times length of the value", &trace.value_norms)}) {
    text += html_table(name, *tensor, trace.tokens, trace.keys);
  }
  text += html_table("output", trace.output, trace.tokens);
  return text + "<table>" + html_element("caption", "Means over the queries") + "\n" +
         html_column_heads({kMeasures.begin(), kMeasures.end()}, false) +
         html_element("tr", measure_cells(trace.summary)) + "</table>\n";
}

std::string report_tables(const TokenMeasures& measures) {
  const auto& [sequences, sites, input, alignment, left_out] = measures.attentions;
  const auto rows = [](const std::vector<MeasuredBy>& by, const std::string& name, const Names& columns) {
    std::string text = "<table>" + html_element("caption", html_text(name)) + "\n" + html_column_heads(columns, true);
    for (const MeasuredBy& one : by) {
      std::string row = html_row_head(qkv::name_of(one.measure));
      for (const double value : one.values) row += html_cell(value);
      text += html_element("tr", row) + "\n";
    }
    return text + "</table>\n";
  };
  std::string text;
  for (const TokenMeasures::Keys& keys : measures.keys) {
    if (keys.by.empty()) continue;
    Names names = sequences[sites[keys.site].keys].tokens;
    names.resize(keys.by.front().values.size());
    text += rows(keys.by, "Keys of " + sites[keys.site].option(), names);
  }
  Names heads;
  for (const HeadIndex& head : measures.heads) heads.push_back(sites[head.site].option() + ", " + head_name(head));
  return heads.empty() ? text : text + rows(measures.by_heads, "Heads", heads);
}

std::string report_tables(const PictureAttention& seen) {
  std::string text = html_table("Rollout through all layers", seen.rollout);
  for (const PictureAttention::Head& head : seen.heads) {
    text += html_table(fmt::format("{}; to the class token {}", head_name(head.index), fixed_text(head.to_class, 5)),
                       head.patches);
  }
  return text;
}

}  // namespace qkv::inline explaining
