/// \file
/// Embeds texts for comparison, in the three forms of sentence-transformers: a vector (the mean over a text's tokens or
/// its first one, of length 1 where the folder says so), a sparse one with a number for each word of the vocabulary
/// (SPLADE), or a vector for each token (late interaction, ColBERT). Sources: Reimers, Gurevych, "Sentence-BERT"
/// (2019); Formal et al., "SPLADE v2" (2021); Khattab, Zaharia, "ColBERT" (2020).
///
///     Embedder embedder = Embedder::load("models/minilm");
///     Tensor e = embedder.embed(texts);   // [texts, dim]
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "qkv/api.h"
#include "qkv/layers/linear.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/text_model.h"
#include "qkv/text/tokenizer.h"

namespace qkv {

/// The kind of a folder's embeddings.
enum class EmbeddingKind {
  vector,  ///< one vector
  sparse,  ///< log(1 + relu(x)) of the logit x of each word of the vocabulary, where it is largest among the tokens
  tokens,  ///< a vector for each token, projected and of length 1 where the folder says so
};
inline constexpr std::pair<std::string_view, EmbeddingKind> kEmbeddingKinds[] = {
    {"vector", EmbeddingKind::vector}, {"sparse", EmbeddingKind::sparse}, {"tokens", EmbeddingKind::tokens}};

/// The role of a text, for folders of EmbeddingKind::tokens: queries may be padded with masks, documents may lose
/// tokens with little meaning.
enum class TextRole { text, query, document };
inline constexpr std::pair<std::string_view, TextRole> kTextRoles[] = {
    {"text", TextRole::text}, {"query", TextRole::query}, {"document", TextRole::document}};

struct SentenceFolder;  ///< what a folder's files say, in src/pipelines

struct EmbedOptions {
  std::optional<std::string> prompt{};  ///< before each text, instead of the folder's default prompt
  TextRole role = TextRole::text;
  std::size_t max_length = 0;  ///< tokens of a text that are read, up to the model's positions; 0: the folder's
  /// Size of a truncated embedding: the first numbers of a vector (Kusupati et al., "Matryoshka Representation
  /// Learning", 2022), the largest of a sparse one, the others being 0. 0: as the folder says, or all.
  std::size_t dimensions = 0;
  /// Whether to normalise vectors to length 1; unset: if the folder says so, also after truncation.
  std::optional<bool> normalize{};
  std::span<std::int64_t> cut{};  ///< optional output, one per text: how many of its tokens exceed the maximum length
  int threads = 0;                ///< 0: threads()
  std::stop_token stop{};
};

/// The numbers of a sparse embedding that are not 0.
struct SparseEmbedding {
  std::vector<std::int32_t> words;  ///< ids of the tokenizer, rising
  std::vector<float> weights;       ///< one for each
};

/// Immutable after construction: any number of threads may call embed.
class QKV_API Embedder {
 public:
  /// `folder` holds what TextEncoder::load reads, tokenizer.json, and perhaps modules.json with the files it names,
  /// sentence_bert_config.json, tokenizer_config.json (its model_max_length) and config_sentence_transformers.json
  /// (prompts, truncate_dim, max_active_dims). Without them: a vector, the mean, any length, and as many tokens as the
  /// model has positions. modules.json lists Transformer, Pooling and perhaps Normalize; or Transformer and
  /// SpladePooling, and the model is a ForMaskedLM; or Transformer and perhaps Dense, MultiVectorMask and Normalize.
  /// A folder of ColBERT's class HF_ColBERT has artifact.metadata, and linear.weight next to the encoder's weights
  /// instead: vectors of tokens, a plain text read as a document. FormatError for other steps, and for paths that leave
  /// the folder. `storage` applies to the layers' matrices (matmul.h): tables stay in f32. docs/design/matmul.md has
  /// the cosines of bf16 and int8_groups to full storage.
  static Embedder load(const std::string& folder, WeightStorage storage = WeightStorage::full);

  /// [texts, dim of the options], the same bits for any other texts and any number of threads. Tokens beyond the
  /// maximum length are cut off, and counted in options.cut. Texts that are not UTF-8 are read as tokenizer.h says.
  /// std::invalid_argument if options.cut is given with another number of elements than there are texts, for a
  /// max_length above the model's positions, for EmbeddingKind::tokens, and for normalize of another kind than vector.
  Tensor embed(std::span<const std::string> texts, const EmbedOptions& options = {}) const;

  /// The same for EmbeddingKind::sparse, without the zeros. std::invalid_argument as above, and for other kinds.
  std::vector<SparseEmbedding> embed_sparse(std::span<const std::string> texts, const EmbedOptions& options = {}) const;

  /// [tokens, dim] of each text; of EmbeddingKind::vector the last hidden states. std::invalid_argument as above, for
  /// EmbeddingKind::sparse, dimensions and normalize.
  std::vector<Tensor> embed_tokens(std::span<const std::string> texts, const EmbedOptions& options = {}) const;

  EmbeddingKind kind() const;
  /// Numbers of a vector; of a sparse one with its zeros.
  std::int64_t dim(const EmbedOptions& options = {}) const;
  /// Tokens of a text, special ones included.
  std::size_t max_length(const EmbedOptions& options = {}) const;
  /// The folder's, by their names; "query" and "document" are empty where it has none, as in sentence-transformers.
  const std::map<std::string, std::string>& prompts() const;
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const TextEncoder& model() const;
  /// The folder's settings besides the model, tokenizers as digests, and the options that change results: for
  /// fingerprint().
  std::string settings(const EmbedOptions& options = {}) const;
  /// Parameters of the model, with the head for sparse embeddings, and of the projection of tokens.
  void visit(const ParameterVisitor& visitor) const;

 private:
  using Model = std::variant<TextEncoder, TextModel>;  // with a head for masked words: sparse
  Embedder(const std::string& folder, Tokenizer tokenizer, Model model, SentenceFolder steps);

  const std::string& prompt_of(const EmbedOptions& options) const;
  std::int64_t tokens_left_out(const std::string& prompt, std::size_t max_length) const;
  std::vector<Encoding> encode(std::span<const std::string> texts, const EmbedOptions& options) const;
  template <class Take>
  void for_each_text(std::span<const Encoding> encodings, const EmbedOptions& options, const Take& take) const;
  void sparse_row(const TensorView& hidden, const EmbedOptions& options, float* row) const;
  Tensor token_rows(const Encoding& encoding, const TensorView& hidden, const EmbedOptions& options) const;

  Tokenizer tokenizer_;
  Model model_;
  std::optional<Linear> projection_;
  std::shared_ptr<const SentenceFolder> steps_;
  std::size_t max_length_;
  std::vector<std::int32_t> skipped_;         ///< ids of tokens
  std::int32_t filler_ = 0;                   ///< the token behind short queries
  std::map<TextRole, std::int32_t> markers_;  ///< the token behind the first one
};

/// How well documents answer queries by late interaction: the sum over a query's tokens of the largest product with a
/// token of the document, [queries, documents], in f32. Of embed_tokens(). A document without tokens has -infinity, or
/// 0 for a query without tokens. std::invalid_argument if vectors differ in dimension.
QKV_API Tensor maxsim(std::span<const Tensor> queries, std::span<const Tensor> documents, int threads = 0);

}  // namespace qkv
