// Marian::load and Marian::save: convert between the tensors of a folder and ours.
#include <vector>

#include "models/marian_config.h"
#include "models/marian_names.h"
#include "qkv/files.h"
#include "qkv/models/marian.h"

namespace qkv {
namespace {

// A bare model lacks what makes logits of hidden states: a bias of 0.
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
  std::vector<TensorName> names = marian_names(config, prefix);
  if (!bare) names.push_back({kLogitsBias, {1, config.output_vocab()}, {kLogitsBias}});
  file.expect(std::move(names));
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
  Tensor& bias = tensors[kLogitsBias];
  const Dims shape{config.output_vocab()};
  bias = bias.rank() == 2 ? Tensor::copy(bias.view().reshape(shape)) : Tensor::zeros(shape);
  Weights weights(std::move(tensors), file.path(), Dtype::f32, storage);
  return Marian(config, weights);
}

void Marian::save(const std::string& folder, Dtype dtype) const {
  std::map<std::string, const Tensor*> ours;
  visit([&](const std::string& name, const Parameter& parameter) { ours[name] = &parameter.value; });
  std::map<std::string, Tensor> theirs;
  for (const TensorName& named : marian_names(config_)) {
    const TensorView whole = *ours.at(named.ours);
    const std::int64_t rows = whole.size(0) / static_cast<std::int64_t>(named.theirs.size());
    for (std::size_t i = 0; i < named.theirs.size(); ++i) {
      const std::int64_t begin = static_cast<std::int64_t>(i) * rows;
      theirs[named.theirs[i]] = convert(whole.slice(0, begin, begin + rows), dtype);
    }
  }
  theirs[kLogitsBias] = convert(ours.at(kLogitsBias)->view().reshape({1, config_.output_vocab()}), dtype);
  write_file(folder + "/config.json", marian_config_json(config_, dtype));
  write_file(folder + "/generation_config.json", marian_generation_json(config_));
  // Last: a folder that has weights is whole.
  write_safetensors(folder + "/model.safetensors", {.tensors = std::move(theirs), .metadata = {{"format", "pt"}}});
}

}  // namespace qkv
