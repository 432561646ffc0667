// ViT. Source: Dosovitskiy et al., "An image is worth 16x16 words" (2020).
#include <nlohmann/json.hpp>

#include "models/pictures/picture_kind.h"

namespace qkv::inline models {
namespace {

std::int64_t read_vit_ff_dim(const ModelConfig& json) { return json.size("intermediate_size"); }
void write_vit_ff_dim(const VitConfig& config, nlohmann::ordered_json& json) {
  json["intermediate_size"] = config.ff_dim;
}

}  // namespace

const PictureKind kVit{.kind = VitKind::vit,
                       .model = "ViTModel",
                       .classifier = "ViTForImageClassification",
                       .norm1 = "layernorm_before",
                       .norm2 = "layernorm_after",
                       .linear1 = "intermediate.dense",
                       .linear2 = "output.dense",
                       .read_ff_dim = read_vit_ff_dim,
                       .write_ff_dim = write_vit_ff_dim};

}  // namespace qkv::inline models
