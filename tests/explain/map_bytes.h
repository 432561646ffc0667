// The bytes of maps as their readers get them: out of base64 (RFC 4648), and inflated by zlib (RFC 1950).
#pragma once

#include <zlib.h>

#include "io/base64.h"

namespace qkv::test {

inline std::string from_base64(const std::string& text) { return io::decode_base64(text).value(); }

// Of so many bytes.
inline std::string inflated(const std::string& deflated, std::size_t size) {
  std::string bytes(size + 1, '\0');
  uLongf length = bytes.size();
  if (uncompress(reinterpret_cast<Bytef*>(bytes.data()), &length, reinterpret_cast<const Bytef*>(deflated.data()),
                 deflated.size()) != Z_OK) {
    throw std::runtime_error("not deflated");
  }
  bytes.resize(length);
  return bytes;
}

template <class Number>
std::vector<Number> numbers_in(const std::string& base64) {
  const std::string bytes = from_base64(base64);
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
  return numbers;
}

}  // namespace qkv::test
