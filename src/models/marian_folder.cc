// Converts between the files of a Marian model's folder and a MarianConfig and Weights.
#include "models/marian_folder.h"

#include "models/marian_config.h"
#include "models/marian_names.h"
#include "models/target_tokens.h"
#include "qkv/files.h"

namespace qkv::inline models {
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

MarianFolder::MarianFolder(const std::string& folder) : config_(read_marian_config(folder)), tensors_(folder) {
  expect_tensors(tensors_, config_);
}

Weights MarianFolder::weights(WeightStorage storage) {
  Weights weights = tensors_.weights(storage);
  if (!tensors_.contains(kLogitsBias)) weights.add(kLogitsBias, Tensor::zeros({config_.output_vocab()}));  // bare model
  return weights;
}

void write_marian_folder(const std::string& folder, const Marian& model, Dtype dtype) {
  const TensorNames names = marian_names(model.config());
  std::map<std::string, Tensor> theirs;
  model.visit([&](const std::string& name, const Parameter& own) { names.add_theirs(name, own.value, dtype, theirs); });
  write_file(folder + "/config.json", marian_config_json(model.config(), dtype));
  write_file(folder + "/generation_config.json", generation_json(model.tokens(), excluded(model.config())));
  // Last: a folder that has weights is whole.
  write_safetensors(folder + "/model.safetensors", {.tensors = std::move(theirs), .metadata = {{"format", "pt"}}});
}

}  // namespace qkv::inline models
