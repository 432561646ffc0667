// Any bytes as a generation_config.json for a vocabulary of 100: tokens are inside of it, lengths and beams in bounds.
#include "pipelines/pipeline_folder.h"
#include "reader.h"

void read(std::string_view bytes) {
  const std::string folder = qkv::fuzz::folder_with("generation_config.json", bytes);
  const qkv::GenerateOptions options = qkv::read_generation(folder, 100).options;
  if (options.start < 0 || options.start >= 100) __builtin_trap();
  if (options.beams < 1 || options.beams > qkv::kMaxBeams || options.max_length < 1) __builtin_trap();
}
