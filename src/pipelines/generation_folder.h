// Reads how a folder's model is to generate.
#pragma once

#include <optional>
#include <string>

#include "qkv/models/generate.h"

namespace qkv::inline pipelines {

struct Generation {
  GenerateOptions options{};
  std::optional<double> unsure_below{};  // log-probability a token
};

// From generation_config.json, or from config.json if there is none. FormatError, naming file and field, for tokens
// outside `vocab`, and for settings that generate() does not support: they would change the result.
Generation read_generation(const std::string& folder, std::int64_t vocab);

}  // namespace qkv::inline pipelines
