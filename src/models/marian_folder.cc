// Marian::load and Marian::save: convert between the tensors of a folder and ours.
#include <algorithm>
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
  Weights weights = file.weights(storage);
  if (!file.contains(kLogitsBias)) weights.add(kLogitsBias, Tensor::zeros({config.output_vocab()}));  // a bare model
  return Marian(config, weights);
}

void Marian::save(const std::string& folder, Dtype dtype) const {
  const std::vector<TensorName> names = marian_names(config_).all();
  std::map<std::string, Tensor> theirs;
  visit([&](const std::string& name, const Parameter& parameter) {
    const TensorName& named = *std::ranges::find(names, name, &TensorName::ours);
    std::vector<Tensor> parts = to_theirs(named, parameter.value, dtype);
    for (std::size_t i = 0; i < parts.size(); ++i) theirs[named.theirs[i]] = std::move(parts[i]);
  });
  write_file(folder + "/config.json", marian_config_json(config_, dtype));
  write_file(folder + "/generation_config.json", marian_generation_json(config_));
  // Last: a folder that has weights is whole.
  write_safetensors(folder + "/model.safetensors", {.tensors = std::move(theirs), .metadata = {{"format", "pt"}}});
}

}  // namespace qkv
