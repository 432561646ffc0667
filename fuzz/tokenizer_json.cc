// Any bytes as a tokenizer.json: read or refused.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "qkv/error.h"
#include "qkv/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const qkv::Encoding encoding = qkv::Tokenizer::parse(text, "fuzz").encode("The [MASK] caf\xC3\xA9.");
    if (encoding.ids.size() != encoding.offsets.size()) __builtin_trap();
  } catch (const qkv::FormatError&) {
  }
  return 0;
}
