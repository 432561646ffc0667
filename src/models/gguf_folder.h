// A model folder as transformers has it, made of a GGUF file.
#pragma once

#include <cstddef>
#include <string>

namespace qkv::inline models {

struct ConvertedModel {
  std::string kind;  // "llama"
  std::size_t tensors;
  std::size_t tokens;
};

// Writes config.json, generation_config.json, model.safetensors, tokenizer.json and tokenizer_config.json: quantised
// weights as f32, others as they are. The folder must not be there; it appears whole or not at all. FormatError, naming
// the file and the key or tensor, for what cannot be converted without loss.
ConvertedModel convert_gguf(const std::string& file, const std::string& folder);

}  // namespace qkv::inline models
