// Reads words with labels, and gives the labels to tokens.
#include "train/data/labelled_words.h"

#include <fmt/format.h>

#include <set>

#include "core/counted.h"
#include "io/files/byte_source.h"
#include "io/files/files.h"
#include "io/files/text.h"
#include "io/json/json_document.h"
#include "qkv/files.h"
#include "train/data/data_lines.h"

namespace qkv::training {
namespace {

std::vector<LabelledWords> read_word_lines(const std::string& path, const TextLineOptions& options) {
  std::vector<LabelledWords> texts;
  bool inside = false;
  for_each_line(read_file(path), path, options, [&](const std::string& line, std::int64_t number, bool) {
    const bool blank = line.find_first_not_of(" \t") == std::string::npos;
    if (!blank) {
      const std::size_t tab = line.find('\t');
      if (tab == std::string::npos || line.find('\t', tab + 1) != std::string::npos) {
        refuse_line(path, number, "must be a word, a tab and its label, or blank between texts");
      }
      if (!inside) texts.push_back({{}, {}, number});
      texts.back().words.push_back(line.substr(0, tab));
      texts.back().labels.push_back(line.substr(tab + 1));
    }
    inside = !blank;
  });
  return texts;
}

std::vector<LabelledWords> read_word_objects(const std::string& path, const TextLineOptions& options) {
  std::vector<LabelledWords> texts;
  for_each_line(read_file(path), path, options, [&](const std::string& line, std::int64_t number, bool) {
    const io::JsonDocument document(line, fmt::format("{}: line {}", path, number));
    LabelledWords& text = texts.emplace_back(LabelledWords{{}, {}, number});
    for (const io::JsonValue& word : document.root()["words"].elements()) text.words.push_back(word.string());
    for (const io::JsonValue& label : document.root()["labels"].elements()) text.labels.push_back(label.string());
    if (text.words.size() != text.labels.size()) {
      refuse_line(path, number,
                  fmt::format("has {} and {}", counted(std::ssize(text.words), "word"),
                              counted(std::ssize(text.labels), "label")));
    }
  });
  return texts;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// The number of the word that each byte of joined(words) belongs to; -1: of none.
std::vector<std::int32_t> words_of_bytes(const std::vector<std::string>& words) {
  std::vector<std::int32_t> found;
  for (std::size_t word = 0; word < words.size(); ++word) {
    if (word > 0) found.push_back(-1);
    found.insert(found.end(), words[word].size(), static_cast<std::int32_t>(word));
  }
  return found;
}

}  // namespace

std::vector<LabelledWords> read_labelled_words(const std::string& path, std::span<const std::string> reserved,
                                               const TextLineOptions& options) {
  const auto read = io::has_ending(path, ".jsonl") ? read_word_objects : read_word_lines;
  std::vector<LabelledWords> texts = read(path, options);
  for (const LabelledWords& text : texts) {
    if (text.words.empty()) refuse_line(path, text.line, "has no words");
    for (const std::string& word : text.words) {
      if (word.empty() || word.find(' ') != std::string::npos) {
        refuse_line(path, text.line,
                    fmt::format("begins a text with the word {}; a word has no spaces", io::quote(word)));
      }
      for (const std::string& token : reserved) {
        if (word.find(token) != std::string::npos) {
          refuse_line(path, text.line, "begins a text that holds the special token " + token);
        }
      }
    }
  }
  return texts;
}

std::vector<std::string> labels_of(const std::vector<LabelledWords>& texts) {
  std::set<std::string> labels;
  for (const LabelledWords& text : texts) labels.insert(text.labels.begin(), text.labels.end());
  return {labels.begin(), labels.end()};
}

WordExamples::WordExamples(const std::vector<LabelledWords>& texts, const std::vector<std::string>& labels,
                           const Tokenizer& tokenizer, std::int64_t max_length, const std::string& path)
    : EncodedExamples(EncodedTexts(texts.size(), max_length, [&](std::size_t i, std::size_t length) {
        return tokenizer.encode(joined(texts[i].words), {.max_length = length});
      })) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const LabelledWords& text = texts[i];
    const Encoding& encoding = texts_.encoding(i);
    const std::vector<std::int32_t> words = words_of_bytes(text.words);
    std::vector<std::int32_t>& own = labels_.emplace_back(encoding.ids.size(), -1);
    std::int32_t last = -1;
    for (std::size_t token = 0; token < own.size(); ++token) {
      const TextSpan& span = encoding.offsets[token];
      if (encoding.special[token] != 0 || span.begin == span.end) continue;
      const std::int32_t word = words[span.end - 1];
      if (word < 0 || word == last) continue;
      own[token] = number_of(text.labels[static_cast<std::size_t>(word)], labels, path, text.line);
      last = word;
    }
  }
}

std::uint32_t WordExamples::checksum() const {
  std::uint32_t sum = texts_.checksum(0);
  for (const auto& own : labels_) {
    sum = io::crc32({reinterpret_cast<const char*>(own.data()), own.size() * sizeof own[0]}, sum);
  }
  return sum;
}

LabelledTokens WordExamples::collect(std::span<const std::uint32_t> chosen) const {
  LabelledTokens batch{texts_.collect(chosen), {}};
  for (const std::uint32_t number : chosen) {
    batch.labels.insert(batch.labels.end(), labels_[number].begin(), labels_[number].end());
  }
  return batch;
}

}  // namespace qkv::training
