/// \file
/// What the library throws. Arguments that do not fit together are std::invalid_argument; these are the others.
#pragma once

#include <stdexcept>
#include <string>

#include "qkv/api.h"

namespace qkv {

/// A file or text breaks a rule of its format. The message names the file, the field and the rule.
struct QKV_API FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The operating system refused to read or write. The message names the file and the system's reason; error_number is
/// the errno of that reason, such as ENOENT, EACCES, EISDIR (a folder where a file is wanted) or ENOSPC.
struct QKV_API IoError : std::runtime_error {
  IoError(const std::string& message, int number) : std::runtime_error(message), error_number(number) {}

  int error_number;
};

/// The caller's stop token asked for an end. Outputs are unspecified.
struct QKV_API Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped on request") {}
};

}  // namespace qkv
