// SHA-256 (FIPS 180-4), for fingerprints.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace qkv::inline core {

class Sha256 {
 public:
  void add(const void* bytes, std::size_t count);
  // With its length before it, so that texts one after the other are not one text.
  void add(std::string_view text) {
    add_number(text.size());
    add(text.data(), text.size());
  }
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  void add_number(T number) {
    add(&number, sizeof number);
  }

  // Of what was added; nothing may be added after it.
  std::array<std::uint8_t, 32> finish();
  std::string hexadecimal();

 private:
  void compress(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_{};
  std::uint64_t count_ = 0;  // bytes
};

}  // namespace qkv::inline core
