// Bytes as letters, beside arithmetic by hand and the example of Z85's specification.
#include <gtest/gtest.h>

#include "explain/report_page.h"

namespace qkv {
namespace {

std::string letters(std::string_view bytes) {
  std::string text;
  append_base85(text, bytes);
  return text;
}

TEST(Base85, IsZ85) {
  EXPECT_EQ(letters("\x86\x4F\xD2\x6F\xB5\x59\xF7\x5B"), "HelloWorld");  // of the specification
  EXPECT_EQ(letters(std::string_view("\0\0\0\0", 4)), "00000");
  EXPECT_EQ(letters("\xFF\xFF\xFF\xFF"), "%nSc0");  // 82 23 54 12 0 by powers of 85
}

TEST(Base85, EndsWithALetterMoreThanBytes) {
  EXPECT_EQ(letters(""), "");
  EXPECT_EQ(letters(std::string_view("\0", 1)), "00");
  EXPECT_EQ(letters(std::string_view("\0\0\0\0\0\0", 6)), "00000000");
}

TEST(Base85, EndsNoElement) {
  std::string bytes;
  for (int i = 0; i < 1 << 16; ++i) bytes += static_cast<char>(i * 2654435761u >> 13);
  EXPECT_EQ(letters(bytes).find_first_of("<\"'\\ "), std::string::npos);
}

}  // namespace
}  // namespace qkv
