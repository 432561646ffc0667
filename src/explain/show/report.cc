// A report: the page, the tables and the data, within a limit of bytes.
#include "qkv/explain/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "core/refuse.h"
#include "core/stop.h"
#include "explain/measure/pyramid.h"
#include "explain/observe/left_out_masks.h"
#include "explain/show/json_object.h"
#include "explain/show/report_page.h"
#include "explain/steps/explanation_context.h"
#include "explain/steps/text_parts.h"
#include "qkv/explain/attention_maps.h"
#include "qkv/explain/explain.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/picture_attention.h"
#include "qkv/explain/token_measures.h"

namespace qkv {
namespace {

using TableNames = std::vector<std::string>;

std::string heading(const std::string& text) { return html_element("h3", io::markup_text(text)) + "\n"; }

std::string cut_line(std::int64_t cut) {
  std::string text;
  for (const Line& line : about_cut(cut)) text += html_element("p", io::markup_text(line.front().text)) + "\n";
  return text;
}

std::string head_name(const HeadIndex& index) { return fmt::format("layer {}, head {}", index.layer, index.head); }

TableNames measure_names() {
  TableNames names;
  for (const auto& [name, value] : kHeadMeasures) names.push_back(name);
  return names;
}

std::string measure_cells(const HeadSummary& summary) {
  std::string cells;
  for (const auto& [name, value] : kHeadMeasures) cells += html_cell(summary.*value);
  return cells;
}

std::string measures(const HeadSurvey& survey, std::size_t site) {
  TableNames names = measure_names();
  names.insert(names.end(), {"value norm", "pattern"});
  std::string text = "<table>" +
                     html_element("caption", "Means over the queries; entropy in nats, distance in tokens") + "\n" +
                     html_column_heads(names, true);
  for (const HeadSurvey::Entry& entry : survey.heads) {
    if (entry.index.site != site) continue;
    text += html_element("tr", html_row_head(head_name(entry.index)) + measure_cells(entry.summary) +
                                   (entry.value_lengths.element_count() > 0 ? html_cell(entry.value_norm)
                                                                            : html_element("td", "")) +
                                   html_element("td", name_of(entry.pattern))) +
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

// The table of a language model.
std::string guesses(const Alignment& alignment) {
  std::string text =
      "<table>" + html_element("caption", "What each layer would have written, and how probable what was written is") +
      "\n";
  for (const WrittenToken& token : alignment.written) {
    if (token.layers.empty()) continue;
    std::string row = html_row_head(token.token);
    for (const LayerGuess& one : token.layers) row += html_row_head(one.best.token) + html_cell(one.written);
    text += html_element("tr", row) + "\n";
  }
  return text + "</table>\n";
}

// A report as HTML tables, for readers without scripts.
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
        text += html_element("p", io::markup_text(words)) + "\n";
      }
      for (const Quantity& one : block.quantities) text += html_table(one.name, one.values, one.rows, one.columns);
    }
  }
  return text;
}

std::string report_tables(const HeadSurvey& survey) {
  const auto& [sequences, sites, input, alignment, left_out, remarks, outputs] = survey.attentions;
  std::string text = cut_line(cut_of(survey.attentions));
  for (const std::string& remark : remarks) text += html_element("p", io::markup_text(remark)) + "\n";
  for (const AttentionSequence& sequence : sequences) {
    std::string tokens;
    for (const std::string& token : sequence.tokens) tokens += " <bdi>" + io::markup_text(token) + "</bdi>";
    text += html_element("p", io::markup_text(sequence.caption) + tokens) + "\n";
  }
  if (alignment && survey.word_weights.element_count() > 0) {
    const TableNames &words = alignment->output.words, &sources = alignment->source.words;
    const bool is_aligned = survey.word_alignment.element_count() > 0;
    if (is_aligned) text += html_table("Which words each word was made from", survey.word_alignment, words, sources);
    text += html_table("Which words attend to which", survey.word_weights, words, sources);
  }
  if (alignment) text += written(*alignment);
  if (alignment && alignment->is_continuation) text += guesses(*alignment);
  for (std::size_t s = 0; s < sites.size(); ++s) {
    const AttentionSite& site = sites[s];
    const TableNames &queries = sequences[site.queries].tokens, &keys = sequences[site.keys].tokens;
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
  std::string text = cut_line(trace.cut) + html_table("query", trace.query, trace.tokens) +
                     html_table("key", trace.key, trace.keys) + html_table("value", trace.value, trace.keys);
  for (const auto& [name, tensor] :
       {std::pair("scores", &trace.scores), std::pair("logits", &trace.logits), std::pair("weights", &trace.weights),
        std::pair("weight times length of the value", &trace.value_norms)}) {
    text += html_table(name, *tensor, trace.tokens, trace.keys);
  }
  text += html_table("output", trace.output, trace.tokens);
  return text + "<table>" + html_element("caption", "Means over the queries") + "\n" +
         html_column_heads(measure_names(), false) + html_element("tr", measure_cells(trace.summary)) + "</table>\n";
}

std::string report_tables(const TokenMeasures& measures) {
  const auto& [sequences, sites, input, alignment, left_out, remarks, outputs] = measures.attentions;
  const auto rows = [](const std::vector<MeasuredBy>& by, const std::string& name, const TableNames& columns) {
    std::string text =
        "<table>" + html_element("caption", io::markup_text(name)) + "\n" + html_column_heads(columns, true);
    for (const MeasuredBy& one : by) {
      std::string row = html_row_head(qkv::name_of(one.measure));
      for (const double value : one.values) row += html_cell(value);
      text += html_element("tr", row) + "\n";
    }
    return text + "</table>\n";
  };
  std::string text = cut_line(cut_of(measures.attentions));
  if (!measures.by_words.empty()) text += rows(measures.by_words, "Words", sequences[sites[0].keys].words.words);
  for (const TokenMeasures::Keys& keys : measures.keys) {
    if (keys.by.empty()) continue;
    TableNames names = sequences[sites[keys.site].keys].tokens;
    names.resize(keys.by.front().values.size());
    text += rows(keys.by, "Keys of " + sites[keys.site].option(), names);
  }
  TableNames heads;
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

std::string report_tables(const AttentionMaps& maps) {
  std::string text, lines;
  for (std::int64_t b = 0; b < maps.batch(); ++b) {
    for (std::int64_t h = 0; h < maps.heads(); ++h) {
      const MapHead head{b, h};
      const std::string name = fmt::format("head {}.{}", b, h);
      if (maps.whole()) {
        text += html_table("weights, " + name, convert(maps.rows(head), Dtype::f64));
      } else {
        const double largest = largest_mean(pyramid_of(maps.blocks(head), maps.queries(), maps.keys()).front());
        lines += html_element("tr", html_row_head(name) + html_cell(largest)) + "\n";
      }
    }
  }
  if (maps.whole()) return text;
  const TensorView blocks = maps.blocks({});
  return "<table>" +
         html_element("caption", fmt::format("The largest mean of {} x {} equal parts of the {} x {} weights",
                                             blocks.size(0), blocks.size(1), maps.queries(), maps.keys())) +
         "\n" + lines + "</table>\n";
}

constexpr std::size_t kLeastPerNumber = 6;  // bytes of a weight in JSON, as a rule 11

// JSON inside of a script element, which "</script" would end.
std::string in_script(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (std::size_t begin = 0; begin < json.size();) {
    const std::size_t end = std::min(json.find('<', begin), json.size());
    text.append(json, begin, end - begin);
    if (end < json.size()) text += "\\u003c";
    begin = end + 1;
  }
  return text;
}

// A copy, of which `reduce` shortens each head.
template <class Reduce>
HeadSurvey reduced(const HeadSurvey& survey, const Reduce& reduce) {
  HeadSurvey copy{.fingerprint = survey.fingerprint,
                  .attentions = survey.attentions,
                  .heads = {},
                  .word_alignment = survey.word_alignment,
                  .word_weights = survey.word_weights,
                  .sublayers = survey.sublayers,
                  .costs = survey.costs,
                  .kept_rows = survey.kept_rows};
  for (const HeadSurvey::Entry& entry : survey.heads) reduce(copy.heads.emplace_back(entry));
  return copy;
}

void take_weights(HeadSurvey::Entry& entry) {
  entry.weights = {};
  entry.map.reset();
}

std::string name_of(const std::string& title) { return title.empty() ? "An explanation" : "\"" + title + "\""; }

// The parts of a report that fit.
class Contents {
 public:
  struct Entry {
    std::string_view name, json, json_without_weights, tables;
    bool has_weights = false;
    bool beside = false;
  };

  void add(const Entry& entry) { entries_.push_back(entry); }
  void say(const std::string& line) { left_out_.push_back(line); }
  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<std::string>& left_out() const { return left_out_; }

  std::size_t size() const {
    std::size_t sum = 0;
    for (const Entry& entry : entries_) sum += entry.json.size() + entry.tables.size() + 2 * entry.name.size() + 100;
    for (const std::string& line : left_out_) sum += 8 * line.size();
    return sum;
  }

  // Leaves out the least important part that is left; false if there is none.
  bool shrink() {
    if (const auto largest = largest_of([](const Entry& entry) { return entry.tables.size(); }); largest) {
      largest->tables = {};
      say(fmt::format("{}: the tables are left out, they would make the file larger than {} MB.", largest->name,
                      kLargestReport / 1'000'000));
      return true;
    }
    if (const auto largest =
            largest_of([](const Entry& entry) { return entry.has_weights ? entry.json.size() : std::size_t{0}; })) {
      largest->json = largest->json_without_weights;
      largest->has_weights = false;
      say(weights_line(largest->name));
      return true;
    }
    const auto largest = largest_of([](const Entry& entry) { return entry.json.size(); });
    if (!largest) return false;
    say(fmt::format("{} is left out: it would make the file larger than {} MB.", largest->name,
                    kLargestReport / 1'000'000));
    largest->json = {};
    return true;
  }

  static std::string weights_line(std::string_view name) {
    return fmt::format("{}: the weights of the heads are left out, they would make the file larger than {} MB.", name,
                       kLargestReport / 1'000'000);
  }

 private:
  // The largest entry; nullptr if all are empty.
  template <class Size>
  Entry* largest_of(const Size& size) {
    const auto found = std::ranges::max_element(entries_, {}, size);
    return found == entries_.end() || size(*found) == 0 ? nullptr : &*found;
  }

  std::vector<Entry> entries_{};
  std::vector<std::string> left_out_{};
};

std::string data_of(const Contents& contents, const std::string& title, const std::string& command,
                    const std::string& start) {
  std::string data = json_text(OrderedJson{
      {"schema", "qkv/report/1"}, {"title", title}, {"command", command}, {"left_out", contents.left_out()}});
  data.pop_back();
  if (!start.empty()) data += ",\"start\":" + json_text(OrderedJson(start));
  for (const bool beside : {false, true}) {
    std::string list;
    for (const Contents::Entry& entry : contents.entries()) {
      if (entry.json.empty() || entry.beside != beside) continue;
      (list += list.empty() ? "" : ",") += entry.json;
    }
    data += fmt::format(",\"{}\":[", beside ? "beside" : "explanations") + list + "]";
  }
  return in_script(data + "}");
}

std::string tables_of(const Contents& contents, const std::string& title) {
  std::string text = "<h1>" + io::markup_text(title) + "</h1>\n";
  for (const std::string& line : contents.left_out()) text += "<p>" + io::markup_text(line) + "</p>\n";
  for (const Contents::Entry& entry : contents.entries()) {
    if (entry.tables.empty()) continue;
    if (contents.entries().size() > 1) text += "<h2>" + io::markup_text(entry.name) + "</h2>\n";
    text += entry.tables;
  }
  return text;
}

}  // namespace

void Report::add(const Explanation& explanation) {
  parts_.push_back(
      {.name = name_of(explanation.title), .json = to_json(explanation), .tables = report_tables(explanation)});
}

void Report::add(const HeadSurvey& survey) {
  std::size_t numbers = 0;
  bool maps = false;
  for (const HeadSurvey::Entry& entry : survey.heads) {
    if (entry.map) {
      maps = true;
    } else {
      numbers += static_cast<std::size_t>(entry.weights.element_count());
    }
  }
  Part part{.name = name_of(survey.attentions.input), .json = {}, .tables = {}};
  part.weights_left_out = numbers * kLeastPerNumber > kLargestReport;
  const HeadSurvey drawn = reduced(survey, [&](HeadSurvey::Entry& entry) {
    if (part.weights_left_out) take_weights(entry);
    if (entry.map) entry.weights = {};
  });
  part.json = to_json(drawn);
  part.tables = report_tables(drawn);
  if (!part.weights_left_out && (numbers > 0 || maps)) {
    part.json_without_weights = to_json(reduced(survey, take_weights));
  }
  parts_.push_back(std::move(part));
}

void Report::add(const HeadTrace& trace, std::optional<std::int64_t> token) {
  parts_.push_back({.name = name_of(trace.title), .json = to_json(trace, token), .tables = report_tables(trace)});
}

void Report::add(const TokenMeasures& measures) {
  const auto& [sequences, sites, input, alignment, left_out, remarks, outputs] = measures.attentions;
  const std::string& token = sequences[measures.sequence].tokens[static_cast<std::size_t>(measures.token)];
  parts_.push_back({.name = name_of(outputs ? "What " + token + " came from"
                                            : "Measures of token " + std::to_string(measures.token) + ", " + token),
                    .json = to_json(measures),
                    .tables = report_tables(measures)});
}

void Report::add(const PictureAttention& seen, const TensorView& view) {
  parts_.push_back({.name = "Where the token \"" + seen.token + "\" looks",
                    .json = to_json(seen, view),
                    .tables = report_tables(seen)});
}

void Report::add(const AttentionMaps& maps) {
  parts_.push_back({.name = "The attention", .json = to_json(maps), .tables = report_tables(maps)});
}

void Report::add_beside(RecordedRun run) {
  parts_.push_back({.name = "The run beside it", .json = std::move(run.json), .tables = {}, .beside = true});
}

void Report::add(const PageEngine& engine) {
  OrderedJson files = OrderedJson::object();
  for (const auto& [path, bytes] : engine.files) append_base85((files[path] = "").get_ref<std::string&>(), bytes);
  engine_ = "<script type=\"text/plain\" id=\"engine\">";
  append_base85(engine_, engine.module);
  engine_ += "</script>\n";
  if (!files.empty()) {
    engine_ += "<script type=\"application/json\" id=\"model\">" + in_script(json_text(files)) + "</script>\n";
  }
  const std::size_t size = engine_.size() + report_page().size();
  if (size > kLargestReport) {
    refuse("report", "the engine and its files take {:.1f} MB of a page, which holds at most {:.1f} MB",
           static_cast<double>(size) / 1e6, static_cast<double>(kLargestReport) / 1e6);
  }
}

std::string Report::html(const std::string& title, const std::string& command, const std::string& start) const {
  Contents contents;
  for (const Part& part : parts_) {
    contents.add({part.name, part.json, part.json_without_weights, part.tables, !part.json_without_weights.empty(),
                  part.beside});
    if (part.weights_left_out) contents.say(Contents::weights_line(part.name));
  }
  while (true) {
    std::string text;
    if (contents.size() + engine_.size() <= kLargestReport) {
      std::string_view page = report_page();
      // The marks in the order of the page.
      for (const auto& [mark, part] :
           {std::pair<std::string_view, std::string>("<!--qkv:title-->", io::markup_text(title)),
            {"<!--qkv:report-->", tables_of(contents, title)},
            {"<!--qkv:data-->", data_of(contents, title, command, start)},
            {"<!--qkv:engine-->", engine_}}) {
        const std::size_t at = page.find(mark);
        text.append(page.substr(0, at)).append(part);
        page.remove_prefix(at + mark.size());
      }
      text.append(page);
    }
    if (!text.empty() && text.size() <= kLargestReport) return text;
    if (!contents.shrink()) return text;
  }
}

}  // namespace qkv
