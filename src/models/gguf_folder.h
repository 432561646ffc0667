// GGUF files as the model folders that transformers would have of them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/arrays/safetensors_header.h"
#include "qkv/matmul.h"
#include "qkv/tensor.h"

namespace qkv::inline models {

// Whether a model's "folder" is a GGUF file.
bool is_gguf(std::string_view folder);

// The folder that an open GGUF file would convert to: quantised weights as f32, others as they are. FormatError, naming
// the file and the key or tensor, for what has no such folder without loss.
class GgufFolder {
 public:
  explicit GgufFolder(const std::string& path);
  ~GgufFolder();

  std::string_view kind() const;  // "llama"
  std::size_t tokens() const;
  // config.json, generation_config.json, tokenizer.json or tokenizer_config.json.
  std::string text(std::string_view name);
  // The names in model.safetensors.
  const std::vector<io::SafetensorsEntry>& tensors() const;
  Tensor read(const std::string& name);
  // How PackedMatrix keeps the blocks of a matrix as they are; full: it is in no such blocks.
  WeightStorage blocks_of(const std::string& name) const;
  // The blocks, u8, with the rows of read().
  Tensor read_blocks(const std::string& name);

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

struct ConvertedModel {
  std::string kind;
  std::size_t tensors;
  std::size_t tokens;
};

// Writes that folder, which must not be there; it appears whole or not at all.
ConvertedModel convert_gguf(const std::string& file, const std::string& folder);

}  // namespace qkv::inline models
