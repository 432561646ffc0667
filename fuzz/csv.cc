// Any bytes as a CSV matrix: read or refused with a FormatError.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "io/parse.h"
#include "qkv/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    qkv::io::parse_csv({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const qkv::FormatError&) {
  }
  return 0;
}
