// Finds the kind of a folder's encoder, and its tensors by the names of that kind.
#include "models/bert_folder.h"

#include <algorithm>

#include "models/model_kinds.h"

namespace qkv::inline models {
namespace {

const EncoderKind& kind_of(const ModelConfig& json) {
  const auto type = json.find("model_type");
  return type ? part_of_kind(*type, &ModelKind::encoder, "encoders") : kBert;
}

void expect_tensors(FolderTensors& file, const EncoderKind& kind, const BertConfig& config) {
  const std::string whole = kind.prefix;
  const std::string prefix = file.contains(whole + "embeddings.word_embeddings.weight") ? whole : "";
  const auto is_passed_over = [&](std::string_view name) {
    return std::ranges::any_of(kind.passed_over, [&](std::string_view begin) { return name.starts_with(begin); });
  };
  file.pass_over([&](std::string_view name) {
    return is_passed_over(name) || (name.starts_with(prefix) && is_passed_over(name.substr(prefix.size())));
  });
  TensorNames names(prefix);
  kind.name(config, names);
  file.expect(names.all());
}

}  // namespace

BertConfig read_bert_config(const std::string& folder) {
  const ModelConfig json(folder);
  return kind_of(json).read(json);
}

BertFolder::BertFolder(const std::string& folder) : config_(read_bert_config(folder)), tensors_(folder) {
  expect_tensors(tensors_, kind_of(ModelConfig(folder)), config_);
}

}  // namespace qkv::inline models
