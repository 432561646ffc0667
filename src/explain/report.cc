// A report: the page, the tables and the data, within a limit of bytes.
#include "qkv/explain/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/refuse.h"
#include "explain/html_text.h"
#include "explain/json_object.h"
#include "explain/page_bytes.h"
#include "explain/report_page.h"
#include "explain/report_tables.h"

namespace qkv {
namespace {

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

// A copy of it; `reduce` takes from each head what is not to be in it.
template <class Reduce>
HeadSurvey reduced(const HeadSurvey& survey, const Reduce& reduce) {
  HeadSurvey copy{.attentions = survey.attentions,
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

// What is left of the parts of a report.
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

  // Makes it smaller, by what is missed least; false if there is nothing left.
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
  // The entry of which there is most, unless there is none of any.
  template <class Size>
  Entry* largest_of(const Size& size) {
    const auto found = std::ranges::max_element(entries_, {}, size);
    return found == entries_.end() || size(*found) == 0 ? nullptr : &*found;
  }

  std::vector<Entry> entries_{};
  std::vector<std::string> left_out_{};
};

std::string data_of(const Contents& contents, const std::string& title, const std::string& command) {
  std::string data = json_text(OrderedJson{
      {"schema", "qkv/report/1"}, {"title", title}, {"command", command}, {"left_out", contents.left_out()}});
  data.pop_back();
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
  std::string text = "<h1>" + html_text(title) + "</h1>\n";
  for (const std::string& line : contents.left_out()) text += "<p>" + html_text(line) + "</p>\n";
  for (const Contents::Entry& entry : contents.entries()) {
    if (entry.tables.empty()) continue;
    if (contents.entries().size() > 1) text += "<h2>" + html_text(entry.name) + "</h2>\n";
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
  const auto& [sequences, sites, input, alignment, left_out] = measures.attentions;
  const std::string& token = sequences[measures.sequence].tokens[static_cast<std::size_t>(measures.token)];
  parts_.push_back({.name = name_of("Measures of token " + std::to_string(measures.token) + ", " + token),
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

std::string Report::html(const std::string& title, const std::string& command) const {
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
      for (const auto& [mark, part] : {std::pair<std::string_view, std::string>("<!--qkv:title-->", html_text(title)),
                                       {"<!--qkv:report-->", tables_of(contents, title)},
                                       {"<!--qkv:data-->", data_of(contents, title, command)},
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
