// The readers of files.h over bytes that are in memory already. `name` stands for the file in messages.
#pragma once

#include <string>
#include <string_view>

#include "qkv/files.h"

namespace qkv::io {

Tensor parse_npy(std::string_view bytes, const std::string& name);
SafeTensors parse_safetensors(std::string_view bytes, const std::string& name);
Tensor parse_csv(std::string_view text, const std::string& name);

}  // namespace qkv::io
