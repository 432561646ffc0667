// The content of a `--session` file: the text's tokens, and the keys and values of all but the last of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/files.h"
#include "qkv/models/language_model.h"

namespace qkv::inline pipelines {

struct GeneratorSession {
  std::vector<std::int32_t> ids{};
  std::int64_t written = 0;    // how many of the last ids the model wrote behind its last prompt, one at least
  double log_probability = 0;  // of these
  StackCache cache{};          // has read all ids but the last one
};

// A safetensors file: "ids", for each layer "layers.N.keys" and "layers.N.values" [tokens, kv_heads, head_dim], and
// the other fields as metadata, "digest" a SHA-256 of all else.
SafeTensors session_file(const GeneratorSession& session, const std::string& fingerprint);
// FormatError, naming it, unless the file is whole, of a model with this fingerprint and of this type.
GeneratorSession session_of(SafeTensors file, const std::string& name, const LanguageModel& model,
                            const std::string& fingerprint, Dtype cache_type = Dtype::f32);
// The ids of a file alone, before it is checked as a whole.
std::vector<std::int32_t> session_ids(const std::string& path);
std::string digest_of_session(const SafeTensors& file);

}  // namespace qkv::inline pipelines
