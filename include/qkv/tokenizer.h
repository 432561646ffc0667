// From text to token ids and back, as a Hugging Face tokenizer.json says: the same ids as the `tokenizers` library.
//
//   Tokenizer tokenizer = Tokenizer::load("models/minilm/tokenizer.json");
//   Encoding e = tokenizer.encode("It was too tired.", {.max_length = 256});   // [CLS] it was too tired . [SEP]
//
// Known are: model WordPiece; normalizer BertNormalizer or null; pre_tokenizer BertPreTokenizer or null; post_processor
// TemplateProcessing, BertProcessing or null; decoder WordPiece or null; added_tokens. Any other type is refused by
// name. `truncation` and `padding` of the file are not applied: the caller gives the maximum length, and nothing is
// padded. A loaded tokenizer is immutable: any number of threads may use it at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qkv {

struct EncodeOptions {
  std::size_t max_length = 0;      // at most this many tokens, special ones included; the end is cut off; 0: no limit
  bool add_special_tokens = true;  // what the post-processor puts around a text
};

// Bytes begin <= i < end of the text.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

// One entry per token.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<std::string> tokens;
  std::vector<std::int32_t> type_ids;
  std::vector<TextSpan> offsets;      // where in the text; empty at 0 for tokens of the post-processor
  std::vector<std::uint8_t> special;  // 1 for tokens of the post-processor
};

struct DecodeOptions {
  bool skip_special_tokens = true;  // leave out the added tokens that the file calls special
};

class Tokenizer {
 public:
  // FormatError, naming the file, the field and the rule, for a file that breaks one; IoError if it cannot be read.
  static Tokenizer load(const std::string& path);
  // From the text of a tokenizer.json; `name` stands for the file in messages.
  static Tokenizer parse(std::string_view json, const std::string& name);

  // Bytes that are not UTF-8 read as U+FFFD, as Python's errors="replace" has it. std::invalid_argument if max_length
  // has no room for the special tokens, or the text has 2^32 bytes or more.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  // std::invalid_argument for an id that is not in the vocabulary.
  std::string decode(std::span<const std::int32_t> ids, const DecodeOptions& options = {}) const;

  // The vocabulary of the model and the added tokens.
  std::optional<std::int32_t> id_of(std::string_view token) const;
  const std::string& token_of(std::int32_t id) const;  // std::invalid_argument for an id that is not there
  // One more than the largest id: the rows that a table of embeddings must have.
  std::int64_t vocab() const;

  struct Parts;  // the stages, in src/text/tokenizer_parts.h

 private:
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

}  // namespace qkv
