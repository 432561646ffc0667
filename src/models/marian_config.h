// config.json and MarianConfig: the model types of transformers, and ours for what none of its classes can be.
#pragma once

#include <optional>
#include <string>

#include "qkv/models/marian.h"

namespace qkv {

// As Marian::read_config and transformers_class.
MarianConfig read_marian_config(const std::string& folder);
std::string marian_class(const MarianConfig& config);

// The text of config.json.
std::string marian_config_json(const MarianConfig& config, Dtype dtype);

// What is no word to be written.
std::optional<std::int32_t> excluded(const MarianConfig& config);

// Whether positions are sinusoids, which follow from the config.
bool has_sinusoids(const MarianConfig& config);

}  // namespace qkv
