// Marian::load and Marian::save: convert between the tensors of a folder and ours.
#include <vector>

#include "models/folder_tensors.h"
#include "models/marian_config.h"
#include "models/marian_names.h"
#include "qkv/files.h"
#include "qkv/models/marian.h"

namespace qkv {
namespace {

void expect_tensors(FolderTensors& file, const MarianConfig& config) {
  const bool two = config.target_vocab > 0;
  const std::string table = two ? "decoder.embed_tokens.weight" : "shared.weight";
  const bool bare = file.contains(table) && !file.contains("model." + table);
  const std::string prefix = bare ? "" : "model.";
  file.tie("lm_head.weight", prefix + table);
  for (const char* side : {"encoder.", "decoder."}) {
    if (!two) file.tie(prefix + side + "embed_tokens.weight", prefix + table);
  }
  if (has_sinusoids(config)) {  // they follow from the config
    file.pass_over([&](std::string_view name) {
      return name == prefix + "encoder.embed_positions.weight" || name == prefix + "decoder.embed_positions.weight";
    });
  }
  file.expect(marian_names(config, prefix).all());
}

}  // namespace

MarianConfig Marian::check(const std::string& folder) {
  const MarianConfig config = read_config(folder);
  FolderTensors file(folder);
  expect_tensors(file, config);
  return config;
}

Marian Marian::load(const std::string& folder, WeightStorage storage) {
  const MarianConfig config = read_config(folder);
  FolderTensors file(folder);
  expect_tensors(file, config);
  std::map<std::string, Tensor> tensors = file.read();
  tensors.try_emplace(kLogitsBias, Tensor::zeros({config.output_vocab()}));  // a bare model lacks it
  Weights weights(std::move(tensors), file.path(), Dtype::f32, storage);
  return Marian(config, weights);
}

void Marian::save(const std::string& folder, Dtype dtype) const {
  std::map<std::string, const Tensor*> ours;
  visit([&](const std::string& name, const Parameter& parameter) { ours[name] = &parameter.value; });
  std::map<std::string, Tensor> theirs = to_theirs(marian_names(config_).all(), ours, dtype);
  write_file(folder + "/config.json", marian_config_json(config_, dtype));
  write_file(folder + "/generation_config.json", marian_generation_json(config_));
  // Last: a folder that has weights is whole.
  write_safetensors(folder + "/model.safetensors", {.tensors = std::move(theirs), .metadata = {{"format", "pt"}}});
}

}  // namespace qkv
