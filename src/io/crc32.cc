// Computes CRC-32 with a table.
#include "io/crc32.h"

#include <array>
#include <cstddef>

namespace qkv::io {
namespace {

using Table = std::array<std::uint32_t, 256>;

// tables[k][b] is the checksum's change by byte b with k zero bytes behind it: eight bytes a turn ("slicing by 8").
constexpr std::array<Table, 8> make_tables() {
  constexpr std::uint32_t kPolynomial = 0xEDB88320;
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xFF];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

}  // namespace

std::uint32_t crc32(std::string_view bytes, std::uint32_t before) {
  std::uint32_t value = ~before;
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(bytes[i])}; };
  while (bytes.size() >= 8) {
    value ^= byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
    value = kTables[7][value & 0xFF] ^ kTables[6][value >> 8 & 0xFF] ^ kTables[5][value >> 16 & 0xFF] ^
            kTables[4][value >> 24] ^ kTables[3][byte(4)] ^ kTables[2][byte(5)] ^ kTables[1][byte(6)] ^
            kTables[0][byte(7)];
    bytes.remove_prefix(8);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) value = (value >> 8) ^ kTables[0][(value ^ byte(i)) & 0xFF];
  return ~value;
}

}  // namespace qkv::io
