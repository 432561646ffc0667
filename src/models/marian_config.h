// config.json and MarianConfig: the model types of transformers, and ours for what none of its classes can be.
#pragma once

#include <string>

#include "qkv/models/marian.h"

namespace qkv {

// As Marian::is_in, read_config and class_of.
bool is_marian_folder(const std::string& folder);
MarianConfig read_marian_config(const std::string& folder);
std::string marian_class(const MarianConfig& config);

// The texts of config.json and generation_config.json.
std::string marian_config_json(const MarianConfig& config, Dtype dtype);
std::string marian_generation_json(const MarianConfig& config);

// Whether positions are sinusoids, which follow from the config.
bool has_sinusoids(const MarianConfig& config);

}  // namespace qkv
