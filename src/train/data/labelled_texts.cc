// Reads labelled texts from columns, CSV and lines of JSON, and makes examples of them.
#include "train/data/labelled_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "core/counted.h"
#include "io/files/byte_source.h"
#include "io/files/files.h"
#include "io/files/text.h"
#include "io/json/json_document.h"
#include "qkv/files.h"
#include "qkv/layers/sequences.h"
#include "qkv/random.h"
#include "qkv/threads.h"
#include "train/data/data_lines.h"

namespace qkv::training {
namespace {

using Columns = std::vector<std::string>;

constexpr char kBetweenLabels = ',';

std::vector<std::string> column_names(const TextColumns& columns) {
  std::vector<std::string> names{"text"};
  if (columns.second) names.emplace_back("second");
  if (columns.label) names.emplace_back("label");
  return names;
}

Columns split_at(char separator, const std::string& line) {
  Columns columns;
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find(separator, begin);
    columns.push_back(line.substr(begin, end - begin));
    if (end == std::string::npos) return columns;
    begin = end + 1;
  }
}

// Rows of CSV as RFC 4180 has them: with fields in quotes, where a quote is two, and line breaks within.
struct CsvRow {
  Columns fields;
  std::int64_t line;  // where it begins
};

std::vector<CsvRow> csv_rows(const std::string& bytes, const std::string& path, const TextLineOptions& options) {
  std::vector<CsvRow> rows;
  bool quoted = false;  // the field that a line ends in goes on
  for_each_line(bytes, path, options, [&](const std::string& line, std::int64_t number, bool) {
    if (quoted) {
      rows.back().fields.back() += '\n';
    } else {
      rows.push_back({{""}, number});
    }
    Columns& fields = rows.back().fields;
    bool begins = !quoted;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool doubled = quoted && i + 1 < line.size() && line[i + 1] == '"';
      if (line[i] == '"' && (quoted || begins)) {
        if (doubled) fields.back() += line[++i];
        quoted = doubled || !quoted;
        begins = false;
      } else if (line[i] == ',' && !quoted) {
        fields.emplace_back();
        begins = true;
      } else {
        fields.back() += line[i];
        begins = false;
      }
    }
  });
  if (quoted) refuse_line(path, rows.back().line, "has a quote that does not end");
  return rows;
}

// In the order of column_names().
LabelledText labelled(Columns texts, const TextColumns& columns, std::int64_t line) {
  return {.text = std::move(texts.front()),
          .second = columns.second ? std::optional(std::move(texts[1])) : std::nullopt,
          .label = columns.label ? std::move(texts.back()) : "",
          .line = line};
}

std::vector<LabelledText> read_columns(const std::string& path, const TextColumns& wanted,
                                       const TextLineOptions& options) {
  std::vector<LabelledText> texts;
  for_each_line(read_file(path), path, options, [&](const std::string& line, std::int64_t number, bool) {
    Columns columns = split_at('\t', line);
    if (columns.size() != column_names(wanted).size()) {
      refuse_line(path, number,
                  fmt::format("has {}; it must be a text{}{}", counted(std::ssize(columns), "column"),
                              !wanted.second ? ""
                              : wanted.label ? ", a tab, a text"
                                             : ", a tab and a text",
                              wanted.label ? ", a tab and a label" : ""));
    }
    texts.push_back(labelled(std::move(columns), wanted, number));
  });
  return texts;
}

std::vector<LabelledText> read_csv_texts(const std::string& path, const TextColumns& wanted,
                                         const TextLineOptions& options) {
  std::vector<CsvRow> rows = csv_rows(read_file(path), path, options);
  std::vector<LabelledText> texts;
  if (rows.empty()) return texts;
  const Columns header = std::move(rows.front().fields);
  std::vector<std::size_t> places;
  for (const std::string& name : column_names(wanted)) {
    const auto found = std::ranges::find(header, name);
    if (found == header.end()) refuse_line(path, 1, fmt::format("names no column \"{}\"", name));
    places.push_back(static_cast<std::size_t>(found - header.begin()));
  }
  for (std::size_t i = 1; i < rows.size(); ++i) {
    CsvRow& row = rows[i];
    if (row.fields.size() != header.size()) {
      refuse_line(path, row.line,
                  fmt::format("has {}; the header has {}", counted(std::ssize(row.fields), "column"), header.size()));
    }
    Columns columns;
    for (const std::size_t place : places) columns.push_back(std::move(row.fields[place]));
    texts.push_back(labelled(std::move(columns), wanted, row.line));
  }
  return texts;
}

// As a column has it.
std::string label_text(const io::JsonValue& value, TextProblem problem) {
  if (problem == TextProblem::multi_label) {
    std::string all;
    for (const io::JsonValue& each : value.elements()) {
      const std::string label = label_text(each, TextProblem::single_label);
      if (label.empty() || label.find(kBetweenLabels) != std::string::npos)
        each.refuse("must be a label without a comma");
      all += (all.empty() ? "" : std::string(1, kBetweenLabels)) + label;
    }
    return all;
  }
  if (!value.is_number()) return value.string();
  if (problem == TextProblem::regression) return fmt::format("{}", value.number());
  return std::to_string(value.integer(INT32_MIN, INT32_MAX));  // as data sets have their classes
}

std::vector<LabelledText> read_json_texts(const std::string& path, const TextColumns& wanted,
                                          const TextLineOptions& options) {
  std::vector<LabelledText> texts;
  for_each_line(read_file(path), path, options, [&](const std::string& line, std::int64_t number, bool) {
    const io::JsonDocument document(line, fmt::format("{}: line {}", path, number));
    Columns columns;
    for (const std::string& name : column_names(wanted)) {
      const io::JsonValue value = document.root()[name];
      columns.push_back(name == "label" ? label_text(value, wanted.problem) : value.string());
    }
    texts.push_back(labelled(std::move(columns), wanted, number));
  });
  return texts;
}

// Without spaces around them.
std::set<std::string> labels_in(const LabelledText& text) {
  std::set<std::string> labels;
  if (text.label.empty()) return labels;
  for (const std::string& each : split_at(kBetweenLabels, text.label)) {
    const std::size_t begin = each.find_first_not_of(' '), end = each.find_last_not_of(' ');
    labels.insert(begin == std::string::npos ? "" : each.substr(begin, end + 1 - begin));
  }
  return labels;
}

std::optional<float> number_in(const LabelledText& text) {
  double number = 0;
  const char* const end = text.label.data() + text.label.size();
  const auto [last, error] = std::from_chars(text.label.data(), end, number);
  const auto narrow = static_cast<float>(number);
  return error == std::errc() && last == end && std::isfinite(narrow) ? std::optional(narrow) : std::nullopt;
}

}  // namespace

std::vector<LabelledText> read_labelled_texts(const std::string& path, const TextColumns& columns,
                                              std::span<const std::string> reserved, const TextLineOptions& options) {
  const auto read = io::has_ending(path, ".csv")     ? read_csv_texts
                    : io::has_ending(path, ".jsonl") ? read_json_texts
                                                     : read_columns;
  std::vector<LabelledText> texts = read(path, columns, options);
  for (const LabelledText& own : texts) {
    const auto expect_text = [&](const std::string& text, const char* what) {
      if (text.find_first_not_of(" \t\n") == std::string::npos)
        refuse_line(path, own.line, fmt::format("has an empty {}", what));
      for (const std::string& token : reserved) {
        if (text.find(token) != std::string::npos) refuse_line(path, own.line, "holds the special token " + token);
      }
    };
    expect_text(own.text, "text");
    if (own.second) expect_text(*own.second, "text");
    if (columns.label && columns.problem != TextProblem::multi_label) expect_text(own.label, "label");
    if (columns.problem == TextProblem::multi_label) {
      for (const std::string& label : labels_in(own)) expect_text(label, "label");
    }
    if (columns.problem == TextProblem::regression && !number_in(own)) {
      refuse_line(path, own.line, fmt::format("has the label {}, which must be a number", io::quote(own.label)));
    }
  }
  return texts;
}

std::vector<std::string> labels_of(const std::vector<LabelledText>& texts, TextProblem problem) {
  if (problem == TextProblem::regression) return {"LABEL_0"};
  std::set<std::string> labels;
  for (const LabelledText& own : texts) {
    if (problem == TextProblem::single_label) {
      labels.insert(own.label);
    } else {
      labels.merge(std::set<std::string>(labels_in(own)));
    }
  }
  return {labels.begin(), labels.end()};
}

std::int32_t number_of(const std::string& label, const std::vector<std::string>& labels, const std::string& path,
                       std::int64_t line) {
  const auto found = std::ranges::lower_bound(labels, label);
  if (found == labels.end() || *found != label) {
    refuse_line(path, line, fmt::format("has the label {}, which is not in the training data", io::quote(label)));
  }
  return static_cast<std::int32_t>(found - labels.begin());
}

TextExamples::TextExamples(const std::vector<LabelledText>& texts, const std::vector<std::string>& labels,
                           const Tokenizer& tokenizer, std::int64_t max_length, const std::string& path,
                           TextProblem problem)
    : EncodedExamples(EncodedTexts(texts.size(), max_length, [&](std::size_t i, std::size_t length) {
        const LabelledText& own = texts[i];
        return own.second ? tokenizer.encode_pair(own.text, *own.second, length)
                          : tokenizer.encode(own.text, {.max_length = length});
      })) {
  for (const LabelledText& own : texts) {
    if (problem == TextProblem::single_label) {
      labels_.push_back(number_of(own.label, labels, path, own.line));
      continue;
    }
    values_.resize(values_.size() + labels.size());
    float* const row = values_.data() + values_.size() - labels.size();
    if (problem == TextProblem::regression) {
      *row = *number_in(own);
    } else {
      for (const std::string& label : labels_in(own)) row[number_of(label, labels, path, own.line)] = 1;
    }
  }
}

std::uint32_t TextExamples::checksum() const {
  const auto sum_of = [](const auto& values) {
    return io::crc32({reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]});
  };
  return texts_.checksum(values_.empty() ? sum_of(labels_) : sum_of(values_));
}

LabelledTokens TextExamples::collect(std::span<const std::uint32_t> chosen) const {
  LabelledTokens batch{texts_.collect(chosen), {}};
  const std::size_t outputs = values_.size() / static_cast<std::size_t>(count());
  for (const std::uint32_t number : chosen) {
    if (values_.empty()) {
      batch.labels.push_back(labels_[number]);
    } else {
      const auto row = values_.begin() + static_cast<std::ptrdiff_t>(number * outputs);
      batch.values.insert(batch.values.end(), row, row + static_cast<std::ptrdiff_t>(outputs));
    }
  }
  return batch;
}

SentenceExamples::SentenceExamples(const std::vector<LabelledText>& texts, const Tokenizer& tokenizer,
                                   std::int64_t max_length)
    : first_(
          texts.size(), max_length,
          [&](std::size_t i, std::size_t length) { return tokenizer.encode(texts[i].text, {.max_length = length}); }),
      second_(texts.size(), max_length, [&](std::size_t i, std::size_t length) {
        return tokenizer.encode(*texts[i].second, {.max_length = length});
      }) {}

PlainExamples::PlainExamples(const std::vector<LabelledText>& texts, const Tokenizer& tokenizer,
                             std::int64_t max_length)
    : EncodedExamples(EncodedTexts(texts.size(), max_length, [&](std::size_t i, std::size_t length) {
        return tokenizer.encode(texts[i].text, {.max_length = length});
      })) {}

LabelledTokens mask_tokens(TokenBatch tokens, const MaskedWords& words, std::uint64_t seed) {
  LabelledTokens batch{std::move(tokens), {}};
  std::vector<std::int32_t>& ids = batch.tokens.ids;
  batch.labels.assign(ids.size(), -1);
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (words.is_special[static_cast<std::size_t>(ids[i])] == 0) open.push_back(i);
  }
  Random random(seed);
  const std::size_t wanted = std::min(open.size(), std::max<std::size_t>(1, open.size() * 15 / 100));
  for (std::size_t n = 0; n < wanted; ++n) {
    std::swap(open[n], open[n + random.below(open.size() - n)]);
    std::int32_t& id = ids[open[n]];
    batch.labels[open[n]] = id;
    const std::uint64_t draw = random.below(10);
    if (draw < 8) id = words.mask;
    if (draw == 8) id = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(words.vocab)));
  }
  return batch;
}

EncodedTexts::EncodedTexts(std::size_t count, std::int64_t max_length,
                           const std::function<Encoding(std::size_t i, std::size_t max_length)>& encode)
    : encodings_(count) {
  const auto most = static_cast<std::size_t>(max_length);
  std::vector<std::uint8_t> is_cut(count);
  parallel_for(std::ssize(encodings_), 0, [&](std::int64_t index, int) {
    const auto i = static_cast<std::size_t>(index);
    encodings_[i] = encode(i, 0);
    is_cut[i] = encodings_[i].ids.size() > most;
    if (is_cut[i]) encodings_[i] = encode(i, most);
  });
  cut_ = std::ranges::count(is_cut, 1);
}

std::uint32_t EncodedTexts::checksum(std::uint32_t sum) const {
  const auto add = [&sum](const std::vector<std::int32_t>& values) {
    sum = io::crc32({reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]}, sum);
  };
  for (const Encoding& own : encodings_) {
    add({static_cast<std::int32_t>(own.ids.size())});
    add(own.ids);
    add(own.type_ids);
  }
  return sum;
}

TokenBatch EncodedTexts::collect(std::span<const std::uint32_t> chosen) const {
  TokenBatch batch;
  std::vector<std::int64_t> lengths;
  for (const std::uint32_t number : chosen) {
    const Encoding& own = encodings_[number];
    batch.ids.insert(batch.ids.end(), own.ids.begin(), own.ids.end());
    batch.types.insert(batch.types.end(), own.type_ids.begin(), own.type_ids.end());
    lengths.push_back(std::ssize(own.ids));
  }
  batch.offsets = offsets_of(lengths);
  return batch;
}

}  // namespace qkv::training
