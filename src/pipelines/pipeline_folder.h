// What the folder of a pipeline says beside its model: how sentences are embedded, and how text is generated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qkv/decode/generate.h"
#include "qkv/pipelines/embedder.h"

namespace qkv {

// The files of sentence-transformers: pooling, limits, prompt.
struct SentenceFolder {
  std::int64_t max_length = 0;  // tokens, special ones included; 0: not said
  Pooling pooling = Pooling::mean;
  bool normalize = false;      // to length 1
  std::string prompt{};        // put before each text
  bool include_prompt = true;  // its tokens are pooled as well
};

inline namespace pipelines {

// modules.json, the pooling config that it names, sentence_bert_config.json, tokenizer_config.json (for
// model_max_length) and config_sentence_transformers.json; any may be missing. FormatError, naming the file and the
// field, for what is not known here. `dim`: of the model's hidden states.
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

// From generation_config.json, or from config.json if there is none. FormatError, naming file and field, for tokens
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
