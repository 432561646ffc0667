/// \file
/// From texts to embeddings whose cosine says how alike the texts are: tokenizer, encoder, the mean over a text's
/// tokens (or its first one), and length 1 where the folder says so. Reads the folders of sentence-transformers that
/// consist of these steps.
/// Source: Reimers, Gurevych, "Sentence-BERT" (2019).
///
///     Embedder embedder = Embedder::load("models/minilm");
///     Tensor e = embedder.embed(texts);   // [texts, dim]
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "qkv/api.h"
#include "qkv/models/text_encoder.h"
#include "qkv/text/tokenizer.h"

namespace qkv {

/// What a text's embedding is made of.
enum class Pooling {
  mean,  ///< its tokens
  cls,   ///< its first token
};

struct SentenceFolder;  ///< what a folder's files say, in src/pipelines

struct EmbedOptions {
  std::optional<std::string> prompt{};  ///< before each text, instead of the folder's default prompt
  std::size_t max_length = 0;     ///< tokens of a text that are read, up to the model's positions; 0: max_length()
  std::span<std::int64_t> cut{};  ///< optional output, one per text: how many of its tokens exceed the maximum length
  int threads = 0;                ///< 0: threads()
  std::stop_token stop{};
};

/// Immutable after construction: any number of threads may call embed.
class QKV_API Embedder {
 public:
  /// `folder` holds what TextEncoder::load reads, tokenizer.json, and perhaps modules.json with the files it names,
  /// sentence_bert_config.json, tokenizer_config.json (its model_max_length) and config_sentence_transformers.json
  /// (its default prompt). Without them: mean, any length, and as many tokens as the model has positions. FormatError
  /// for unsupported steps, and for paths that leave the folder. `storage` is that of the layers' matrices (matmul.h):
  /// tables stay in f32. docs/design/matmul.md has the cosines of bf16 and int8_groups to full storage.
  static Embedder load(const std::string& folder, WeightStorage storage = WeightStorage::full);

  /// One row per text, the same bits for any other texts and any number of threads. What exceeds the maximum length of
  /// a text is cut off, and counted in options.cut. Texts that are not UTF-8 are read as tokenizer.h says.
  /// std::invalid_argument if options.cut is given with another number of elements than there are texts, and for a
  /// max_length above the model's positions.
  Tensor embed(std::span<const std::string> texts, const EmbedOptions& options = {}) const;

  std::int64_t dim() const { return model_.config().model_dim; }
  /// Tokens of a text, special ones included.
  std::size_t max_length() const { return max_length_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const TextEncoder& model() const { return model_; }
  /// What the folder says beside the model, tokenizers as digests: for fingerprint(). max_length as in EmbedOptions.
  std::string settings(std::size_t max_length = 0) const;

 private:
  Embedder(Tokenizer tokenizer, TextEncoder model, std::size_t max_length, const SentenceFolder& steps);

  std::int64_t tokens_left_out(const std::string& prompt, std::size_t max_length) const;

  Tokenizer tokenizer_;
  TextEncoder model_;
  std::size_t max_length_;
  Pooling pooling_;
  bool normalize_, include_prompt_;
  std::string prompt_;  ///< before each text
};

}  // namespace qkv
