// CRC-32 against known values.
#include "io/crc32.h"

#include <gtest/gtest.h>

#include <string>

namespace qkv {
namespace {

// The check value of the catalogue of CRC algorithms (CRC-32/ISO-HDLC), and what Python's zlib.crc32 gives.
TEST(Crc32, GivesTheKnownAnswers) {
  EXPECT_EQ(io::crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(io::crc32(""), 0u);
  EXPECT_EQ(io::crc32(std::string(1000, '\xff')), 0xE0533230u);
}

TEST(Crc32, GoesOnWhereItStopped) {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  for (std::size_t i = 0; i <= text.size(); ++i) {
    EXPECT_EQ(io::crc32(text.substr(i), io::crc32(text.substr(0, i))), 0x414FA339u) << i;
  }
}

}  // namespace
}  // namespace qkv
