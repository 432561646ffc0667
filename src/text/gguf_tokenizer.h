// The tokenizer inside a GGUF file as a tokenizer.json.
#pragma once

#include <string>

#include "io/arrays/gguf.h"

namespace qkv::text {

// For the models "gpt2", whose pre-tokenizer is known by name, and "llama". FormatError naming the key and the rule for
// any other, and for one that would not be the same: where two tokens of "llama" that merges make share a score.
std::string gguf_tokenizer_json(io::GgufFile& file);

}  // namespace qkv::text
