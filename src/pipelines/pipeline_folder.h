// Settings of a pipeline's folder besides its model: how sentences are embedded, and how text is generated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "qkv/decode/generate.h"
#include "qkv/pipelines/embedder.h"

namespace qkv {

// Pooling of a vector: the mean over a text's tokens, or its first one.
enum class Pooling { mean, cls };

// Masked words behind a query that is shorter than `length` tokens.
struct QueryExpansion {
  std::int64_t length = 0;
  bool cuts = false;      // what is longer, too
  bool attended = false;  // other tokens attend to them
  std::string token{};    // empty: the tokenizer's mask
};

// The files of sentence-transformers, or of ColBERT itself: the steps after the model, limits, prompts.
struct SentenceFolder {
  EmbeddingKind kind = EmbeddingKind::vector;
  std::int64_t max_length = 0;  // tokens, special ones included; 0: not said
  Pooling pooling = Pooling::mean;
  bool normalize = false;       // to length 1
  bool include_prompt = true;   // its tokens are pooled as well
  bool log_twice = false;       // of a sparse embedding
  std::int64_t dimensions = 0;  // truncate_dim, or max_active_dims of a sparse one; 0: not said
  std::map<std::string, std::string> prompts{{"document", ""}, {"query", ""}};
  std::string prompt{};  // the default one, put before each text

  // Vectors of tokens.
  std::string projection{};  // the folder of its weights; empty: none
  LinearConfig projected{};
  std::vector<std::string> skipped{};          // words whose tokens are left out
  std::vector<std::string> skipped_in{};       // texts of these roles
  std::map<TextRole, std::int64_t> lengths{};  // as max_length, where a role has its own
  std::optional<QueryExpansion> expansion{};
  std::map<TextRole, std::string> markers{};  // stand behind the first token; none: none do
};

inline namespace pipelines {

// modules.json, the configs that it names, sentence_bert_config.json, tokenizer_config.json (for model_max_length) and
// config_sentence_transformers.json; any may be missing. Of ColBERT's class HF_ColBERT artifact.metadata instead.
// FormatError, naming the file and the field, for what is not known here. `dim`: of the model's hidden states.
SentenceFolder read_sentence_folder(const std::string& folder, std::int64_t dim);

// max_seq_length of sentence_bert_config.json, else model_max_length of tokenizer_config.json; 0: not said. FormatError
// as above.
std::int64_t read_max_length(const std::string& folder);

// The tokens of a text that a model with so many positions reads, where its folder says `said`.
inline std::size_t tokens_read(std::int64_t said, std::int64_t positions) {
  return static_cast<std::size_t>(said > 0 ? std::min(said, positions) : positions);
}

// Whether a cross-encoder's scores are the sigmoid of its logits: activation_fn of config_sentence_transformers.json
// or, where that says nothing, of config.json. FormatError, naming the file and the field, for what is not known here,
// and unless modules.json, if it is there, lists the Transformer alone.
bool scores_are_sigmoid(const std::string& folder);

// How a folder's model is to generate.
struct Generation {
  GenerateOptions options{};
  std::optional<double> unsure_below{};  // log-probability a token
};

// Reads generation_config.json, or config.json if there is none. FormatError, naming file and field, for tokens
// outside `vocab`, and for settings that generate() does not support: they would change the result.
Generation read_generation(const std::string& folder, std::int64_t vocab);

// How a language model is to write. Lengths count the prompt's tokens, but for `new` ones.
struct TextGeneration {
  GenerateOptions options{};  // without lengths
  std::optional<std::int64_t> max_length{}, max_new_tokens{};
  std::int64_t min_length = 0, min_new_tokens = 0;
  std::vector<std::string> stop_strings{};
};
// The same of a language model. Where do_sample is set and top_k is not, top_k is 50, as transformers has it.
TextGeneration read_text_generation(const std::string& folder, std::int64_t vocab);

}  // namespace pipelines
}  // namespace qkv
