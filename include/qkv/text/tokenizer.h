/// \file
/// Converts text to token ids and back by a Hugging Face tokenizer.json: the same ids as the `tokenizers` library.
///
///     Tokenizer tokenizer = Tokenizer::load("models/minilm/tokenizer.json");
///     Encoding e = tokenizer.encode("It was too tired.", {.max_length = 256});   // [CLS] it was too tired . [SEP]
///
/// Known are: models WordPiece, BPE and Unigram; normalizers BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase,
/// StripAccents, Strip, Prepend, Replace (of a string, or of " {2,}"), Precompiled and Sequence; pre-tokenizers
/// BertPreTokenizer, ByteLevel, Metaspace, Split (at a string, or by the expression of GPT-2, GPT-4, Llama 3, Qwen 2 or
/// Qwen 3), Digits, Punctuation, Whitespace, WhitespaceSplit and Sequence; post-processors TemplateProcessing,
/// BertProcessing, RobertaProcessing, ByteLevel and Sequence; decoders WordPiece, ByteLevel, Metaspace, BPEDecoder,
/// ByteFallback, Replace, Fuse, Strip and Sequence; added_tokens. Any other type is refused by name. `truncation` and
/// `padding` of the file are not applied: the caller gives the maximum length, and nothing is padded. A loaded
/// tokenizer is immutable: any number of threads may use it at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/api.h"

namespace qkv {

struct EncodeOptions {
  std::size_t max_length = 0;      ///< at most this many tokens, special ones included; the end is cut off; 0: no limit
  bool add_special_tokens = true;  ///< what the post-processor puts around a text
};

/// Bytes begin <= i < end of the text.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

/// One entry per token.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<std::string> tokens;
  std::vector<std::int32_t> type_ids;
  std::vector<TextSpan> offsets;      ///< where in the text; empty at 0 for tokens of the post-processor
  std::vector<std::uint8_t> special;  ///< 1 for tokens of the post-processor
  std::vector<std::int32_t> words;  ///< in which word of the pre-tokenizer, from 0; -1 for tokens of the post-processor
};

/// Two texts as one sequence, of the second perhaps a part.
struct PairWindow {
  Encoding encoding;
  std::size_t begin = 0, end = 0;  ///< the tokens begin <= i < end are the second text's
};

struct DecodeOptions {
  bool skip_special_tokens = true;  ///< leave out the added tokens that the file calls special
};

class QKV_API Tokenizer {
 public:
  /// Files with an id of `vocab` (the rows of the model's table of embeddings) or more are refused.
  static constexpr std::int64_t kAnyVocab = std::int64_t{1} << 31;

  /// A tokenizer.json, or the tokenizer in a file whose name ends with ".gguf". FormatError, naming the file, the field
  /// and the rule, for a file that breaks one; IoError if it cannot be read.
  static Tokenizer load(const std::string& path, std::int64_t vocab = kAnyVocab);
  /// As MarianTokenizer of transformers makes it of source.spm (or target.spm), a SentencePiece model of the unigram
  /// kind, and vocab.json, {token: id}: the same ids. Errors as load().
  static Tokenizer load_marian(const std::string& pieces, const std::string& vocabulary,
                               std::int64_t vocab = kAnyVocab);
  /// Parses the text of a tokenizer.json; `name` is the file's name in messages.
  static Tokenizer parse(std::string_view json, const std::string& name, std::int64_t vocab = kAnyVocab);

  /// Bytes that are not UTF-8 read as U+FFFD, as Python's errors="replace" has it. std::invalid_argument if max_length
  /// has no room for the special tokens, or the text has 2^32 bytes or more.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// Two texts in one sequence, with what the post-processor puts around and between them; offsets are those in each
  /// text. Of more than max_length tokens, special ones included (0: no limit), the longer text loses its end first, as
  /// tokenizers' longest_first. std::invalid_argument as encode(), and where the post-processor says nothing of pairs.
  Encoding encode_pair(std::string_view first, std::string_view second, std::size_t max_length = 0) const;
  /// The same without cutting the first text: of a second one that is too long all parts, of which each repeats the
  /// last `overlap` tokens of the one before, as tokenizers' only_second with a stride. The overlap is lessened where
  /// it leaves no room for another token. std::invalid_argument as above, and where the first text leaves no room.
  std::vector<PairWindow> encode_windows(std::string_view first, std::string_view second, std::size_t max_length,
                                         std::size_t overlap = 0) const;
  /// std::invalid_argument for an id that is not in the vocabulary.
  std::string decode(std::span<const std::int32_t> ids, const DecodeOptions& options = {}) const;
  /// What the decoder makes of tokens, which need not be in the vocabulary.
  std::string join(std::vector<std::string> tokens) const;

  /// The vocabulary of the model and the added tokens.
  std::optional<std::int32_t> id_of(std::string_view token) const;
  bool contains(std::int32_t id) const;                ///< a model may have rows for more ids than there are tokens
  const std::string& token_of(std::int32_t id) const;  ///< std::invalid_argument for an id that is not there
  /// The added tokens that the file calls special: a text that holds one of them becomes it.
  std::vector<std::string> special_tokens() const;
  /// The token of what the model's vocabulary does not hold.
  std::optional<std::int32_t> unknown() const;
  /// Whether tokens that continue a word begin with a mark, as WordPiece's do.
  bool marks_continuations() const;
  /// One more than the largest id: the rows that a table of embeddings must have.
  std::int64_t vocab() const;
  /// SHA-256, in hexadecimal, of everything that decides ids and texts, for any order of keys and tokens in the file.
  std::string digest() const;

  struct Parts;  ///< the stages, in src/text/tokenizer_parts.h

 private:
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

/// Detokenizes token by token: text piece by piece, as ids arrive. What put() gives is valid UTF-8; a character
/// comes with the token that ends it. All pieces together are the text that decode() gives for all ids, unless
/// those make bytes that are no UTF-8.
class QKV_API DecodeStream {
 public:
  explicit DecodeStream(Tokenizer tokenizer, const DecodeOptions& options = {})
      : tokenizer_(std::move(tokenizer)), options_(options) {}

  /// std::invalid_argument for an id that is not in the vocabulary.
  std::string put(std::int32_t id);
  /// What put() still held back; then the stream is as new.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  std::vector<std::int32_t> ids_;  ///< since the step before the last one that gave text
  std::size_t done_ = 0;           ///< of them, those whose text has been given
  std::string given_;              ///< their text
};

}  // namespace qkv
