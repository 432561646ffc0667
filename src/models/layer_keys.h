// Keys of config.json that encoders and language models share: how the queries and keys of a layer rotate, and which
// layers have a window.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "models/model_config.h"
#include "qkv/layers/transformer_layer.h"

namespace qkv::inline models {

// Whether a key is there, as null: what is missing may have a default instead.
bool is_null(const ModelConfig& config, std::string_view key);

// What "layer_types" says of a layer, "sliding_attention" or "full_attention"; `otherwise` if the key is not there.
std::function<bool(std::size_t layer)> windowed_layers(const ModelConfig& config, std::int64_t layers,
                                                       const std::function<bool(std::size_t layer)>& otherwise);

// What says how rotary positions are scaled: "rope_scaling" unless it is empty, as in transformers, else
// "rope_parameters"; without either the whole document.
io::JsonValue rotary_parameters(const ModelConfig& config);

// How queries and keys rotate: from "rope_theta" and "rope_scaling", as older files have it, or "rope_parameters".
// Heads have `head_dim` elements, of which the share `partial` rotates unless the file has one; not given: all, and the
// file must not have another share.
struct RotaryDefaults {
  double base = 10000;
  std::optional<double> partial{};
};
RotaryConfig read_rotary(const ModelConfig& config, std::int64_t head_dim, const RotaryDefaults& defaults = {});
// The same of one of the objects that rope_parameters may hold, one for each type of layers.
RotaryConfig read_rotary(const io::JsonValue& parameters, const ModelConfig& config, std::int64_t head_dim,
                         const RotaryDefaults& defaults);

// The sequence that a model can read: max_position_embeddings; of a dynamic rotary scaling `factor` times as many.
std::int64_t readable_positions(const ModelConfig& config, const std::optional<RotaryConfig>& rotary);

}  // namespace qkv::inline models
