// Closes file descriptors, and turns failed system calls into IoError.
#include "io/descriptor.h"

#include <unistd.h>

#include <system_error>

#include "qkv/error.h"

namespace qkv::io {

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

void throw_io_error(const std::string& path, const char* action) {
  const std::string reason = std::generic_category().message(errno);
  throw IoError(path + ": cannot " + action + ": " + reason);
}

}  // namespace qkv::io
