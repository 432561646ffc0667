// Runs one of the readers over the bytes that a fuzz target gives it.
#include "reader.h"

#include <cstddef>
#include <cstdint>

#include "qkv/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    read({reinterpret_cast<const char*>(data), size});
  } catch (const qkv::FormatError&) {
  }
  return 0;
}
