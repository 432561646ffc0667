// Any bytes as a JSON matrix: read or refused with a FormatError.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "qkv/error.h"
#include "qkv/files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    qkv::parse_json_matrix({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const qkv::FormatError&) {
  }
  return 0;
}
