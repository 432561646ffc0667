// The version of the library that runs, which headers alone cannot tell.
#pragma once

#include <string_view>

#include "qkv/api.h"

namespace qkv {

// MAJOR.MINOR.PATCH.
QKV_API std::string_view version();

}  // namespace qkv
