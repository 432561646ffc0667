// How a folder's model is to generate.
#pragma once

#include <string>

#include "qkv/generate.h"

namespace qkv {

// From generation_config.json, or from config.json if there is none. FormatError, naming file and field, for tokens
// outside `vocab`, and for wishes that generate() cannot fulfil: they would change the result.
GenerateOptions read_generation(const std::string& folder, std::int64_t vocab);

}  // namespace qkv
