// DINOv2: ViT with layer scale, whose classifier reads the mean of the patches, too. Source: Oquab et al., "DINOv2"
// (2023).
#include <nlohmann/json.hpp>

#include "layers/basic/layer_checks.h"
#include "models/pictures/picture_kind.h"

namespace qkv::inline models {
namespace {

std::int64_t read_dinov2_ff_dim(const ModelConfig& json) {
  const double ratio = json["mlp_ratio"].number(), dim = ratio * static_cast<double>(json.size("hidden_size"));
  if (!(dim >= 1 && dim <= static_cast<double>(kMaxLayerSize))) json["mlp_ratio"].refuse("is out of range");
  return static_cast<std::int64_t>(dim);
}

void write_dinov2_ff_dim(const VitConfig& config, nlohmann::ordered_json& json) {
  if (config.ff_dim % config.model_dim == 0) {
    json["mlp_ratio"] = config.ff_dim / config.model_dim;
  } else {
    json["mlp_ratio"] = static_cast<double>(config.ff_dim) / static_cast<double>(config.model_dim);
  }
  json["use_swiglu_ffn"] = false;
}

}  // namespace

const PictureKind kDinov2{.kind = VitKind::dinov2,
                          .model = "Dinov2Model",
                          .classifier = "Dinov2ForImageClassification",
                          .norm1 = "norm1",
                          .norm2 = "norm2",
                          .linear1 = "mlp.fc1",
                          .linear2 = "mlp.fc2",
                          .read_ff_dim = read_dinov2_ff_dim,
                          .write_ff_dim = write_dinov2_ff_dim,
                          .layer_scale = true,
                          .classifies_mean = true};

}  // namespace qkv::inline models
