// Reads documents, and cuts them into examples.
#include "train/data/documents.h"

#include "io/files/byte_source.h"
#include "qkv/files.h"
#include "qkv/layers/sequences.h"
#include "train/data/data_lines.h"

namespace qkv::training {

std::vector<Document> read_documents(const std::string& path, std::span<const std::string> reserved,
                                     const TextLineOptions& options) {
  std::vector<Document> documents;
  bool inside = false;
  for_each_line(read_file(path), path, options, [&](const std::string& line, std::int64_t number, bool last) {
    const bool blank = line.find_first_not_of(" \t") == std::string::npos;
    if (blank && !inside && !last) refuse_line(path, number, "is blank: an empty document");
    if (!blank) {
      for (const std::string& token : reserved) {
        if (line.find(token) != std::string::npos) refuse_line(path, number, "holds the special token " + token);
      }
      if (!inside) documents.push_back({{}, number});
      std::string& text = documents.back().text;
      text += (text.empty() ? "" : "\n") + line;
    }
    inside = !blank;
  });
  return documents;
}

DocumentExamples::DocumentExamples(std::vector<std::vector<std::int32_t>> tokens, std::int64_t bytes,
                                   std::int64_t length, std::int64_t stride)
    : tokens_(std::move(tokens)), bytes_(bytes) {
  std::vector<std::int64_t> lengths;
  for (const auto& own : tokens_) lengths.push_back(std::ssize(own));
  windows_ = text_windows(lengths, length, stride);
}

// The last token of a window is only a label.
ExampleSize DocumentExamples::size(std::int64_t i) const {
  const TextWindow& window = windows_[static_cast<std::size_t>(i)];
  const std::int64_t length = window.end - window.begin - 1;
  return {.cost = length, .length = length};
}

std::uint32_t DocumentExamples::checksum() const {
  std::uint32_t sum = 0;
  const auto add = [&sum](const auto* values, std::size_t count) {
    sum = io::crc32({reinterpret_cast<const char*>(values), count * sizeof *values}, sum);
  };
  for (const TextWindow& window : windows_) {
    const std::int64_t place[] = {window.begin, window.end, window.counted};
    add(place, 3);
    add(tokens_[window.text].data() + window.begin, static_cast<std::size_t>(window.end - window.begin));
  }
  return sum;
}

TokenLabels DocumentExamples::collect(std::span<const std::uint32_t> chosen) const {
  TokenLabels batch;
  std::vector<std::int64_t> lengths;
  for (const std::uint32_t number : chosen) {
    const TextWindow& window = windows_[number];
    const std::vector<std::int32_t>& tokens = tokens_[window.text];
    for (std::int64_t at = window.begin + 1; at < window.end; ++at) {
      batch.ids.push_back(tokens[static_cast<std::size_t>(at - 1)]);
      batch.labels.push_back(at < window.counted ? -1 : tokens[static_cast<std::size_t>(at)]);
    }
    lengths.push_back(window.end - window.begin - 1);
  }
  batch.offsets = offsets_of(lengths);
  return batch;
}

}  // namespace qkv::training
