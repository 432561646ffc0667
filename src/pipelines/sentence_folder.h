// What the files of sentence-transformers beside a model say.
#pragma once

#include <cstdint>
#include <string>

namespace qkv {

struct SentenceFolder {
  std::int64_t max_length = 0;  // tokens, special ones included; 0: not said
  bool normalize = true;        // to length 1
};

// modules.json, the pooling config that it names (which must be the mean over tokens of `dim` numbers) and
// sentence_bert_config.json; any may be missing.
SentenceFolder read_sentence_folder(const std::string& folder, std::int64_t dim);

}  // namespace qkv
