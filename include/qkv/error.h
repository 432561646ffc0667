// What the library throws. Arguments that do not fit together are std::invalid_argument; these are the others.
#pragma once

#include <stdexcept>

#include "qkv/api.h"

namespace qkv {

// A file or text breaks a rule of its format. The message names the file, the field and the rule.
struct QKV_API FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The operating system refused to read or write. The message names the file and the system's reason.
struct QKV_API IoError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The caller's stop token asked for an end. Outputs are unspecified.
struct QKV_API Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped on request") {}
};

}  // namespace qkv
