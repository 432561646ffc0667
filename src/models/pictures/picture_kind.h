// What sets one kind of Vision Transformer apart from another, in its folder and in what it computes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/model_config.h"
#include "models/model_kinds.h"
#include "qkv/models/vit.h"

namespace qkv::inline models {

struct PictureKind {
  VitKind kind;
  const char* model;                              // transformers' class without a classifier
  const char* classifier;                         // and with one
  const char *norm1, *norm2, *linear1, *linear2;  // parts of a layer
  std::int64_t (*read_ff_dim)(const ModelConfig& json);
  void (*write_ff_dim)(const VitConfig& config, nlohmann::ordered_json& json);
  bool layer_scale = false;
  bool classifies_mean = false;  // the classifier takes the mean of the patches beside the class token
};

}  // namespace qkv::inline models
