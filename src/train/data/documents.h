// Documents of a training: read, and as examples to train on or to validate with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/language/text_windows.h"
#include "qkv/models/token_labels.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text_lines.h"
#include "qkv/train/examples.h"

namespace qkv::training {

struct Document {
  std::string text;
  std::int64_t line;  // of its beginning, from 1
};

// Documents of one or more lines, with a blank line between them. FormatError, naming the line, for an empty document
// (two blank lines), bytes that are not UTF-8, and a text that holds one of `reserved`.
std::vector<Document> read_documents(const std::string& path, std::span<const std::string> reserved,
                                     const TextLineOptions& options);

// Windows of documents.
class DocumentExamples : public Examples<TokenLabels> {
 public:
  // `tokens` of each document; `bytes` of the whole text.
  DocumentExamples(std::vector<std::vector<std::int32_t>> tokens, std::int64_t bytes, std::int64_t length,
                   std::int64_t stride);

  std::string kind() const override { return "documents"; }
  std::int64_t count() const override { return std::ssize(windows_); }
  ExampleSize size(std::int64_t i) const override;
  std::uint32_t checksum() const override;
  std::int64_t bytes() const override { return bytes_; }
  TokenLabels collect(std::span<const std::uint32_t> chosen) const override;

 private:
  std::vector<std::vector<std::int32_t>> tokens_;
  std::int64_t bytes_;
  std::vector<TextWindow> windows_;
};

}  // namespace qkv::training
