// Reads the files of sentence-transformers beside a model: pooling, limits, prompt.
#pragma once

#include <cstdint>
#include <string>

#include "qkv/models/embedder.h"

namespace qkv {

struct SentenceFolder {
  std::int64_t max_length = 0;  // tokens, special ones included; 0: not said
  Pooling pooling = Pooling::mean;
  bool normalize = false;  // to length 1
  std::string prompt{};    // put before each text
};

// modules.json, the pooling config that it names, sentence_bert_config.json, tokenizer_config.json (for
// model_max_length) and config_sentence_transformers.json; any may be missing. FormatError, naming the file and the
// field, for what is not known here. `dim`: of the model's hidden states.
SentenceFolder read_sentence_folder(const std::string& folder, std::int64_t dim);

}  // namespace qkv
