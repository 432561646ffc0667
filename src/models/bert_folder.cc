// Bert::load: config.json and tensors of a folder, of whichever kind of encoder.
#include <algorithm>

#include "models/folder_tensors.h"
#include "models/model_kinds.h"

namespace qkv {
namespace {

struct KindAndConfig {
  const EncoderKind& kind;
  BertConfig config;
};

KindAndConfig read(const std::string& folder) {
  const ModelConfig json(folder);
  const auto type = json.find("model_type");
  const EncoderKind& kind = type ? part_of_kind(*type, &ModelKind::encoder, "encoders") : kBert;
  return {kind, kind.read(json)};
}

void expect_tensors(FolderTensors& file, const KindAndConfig& model) {
  const std::string whole = model.kind.prefix;
  const std::string prefix = file.contains(whole + "embeddings.word_embeddings.weight") ? whole : "";
  const auto is_passed_over = [&](std::string_view name) {
    return std::ranges::any_of(model.kind.passed_over, [&](std::string_view begin) { return name.starts_with(begin); });
  };
  file.pass_over([&](std::string_view name) {
    return is_passed_over(name) || (name.starts_with(prefix) && is_passed_over(name.substr(prefix.size())));
  });
  TensorNames names(prefix);
  model.kind.name(model.config, names);
  file.expect(names.all());
}

}  // namespace

BertConfig Bert::read_config(const std::string& folder) { return read(folder).config; }

BertConfig Bert::check(const std::string& folder) {
  const KindAndConfig model = read(folder);
  FolderTensors file(folder);
  expect_tensors(file, model);
  return model.config;
}

Bert Bert::load(const std::string& folder) {
  const KindAndConfig model = read(folder);
  FolderTensors file(folder);
  expect_tensors(file, model);
  Weights weights = file.weights();
  return Bert(model.config, weights);
}

}  // namespace qkv
