// What belongs to the text of a line.
#include "qkv/text_lines.h"

#include <gtest/gtest.h>

#include "qkv/error.h"

namespace qkv {
namespace {

const std::string kMark = "\xef\xbb\xbf";

TEST(TextLines, AreTextsWithoutWhatSystemsAdd) {
  EXPECT_EQ(text_of_line("", 1), "");
  EXPECT_EQ(text_of_line("a b", 1), "a b");
  EXPECT_EQ(text_of_line("a\r", 1), "a");
  EXPECT_EQ(text_of_line("a\r\r", 1), "a\r");
  EXPECT_EQ(text_of_line("a\rb", 1), "a\rb");
  EXPECT_EQ(text_of_line(kMark + "a\r", 1), "a");
  EXPECT_EQ(text_of_line(kMark, 1), "");
  EXPECT_EQ(text_of_line(kMark + kMark + "a", 1), kMark + "a");
  EXPECT_EQ(text_of_line(kMark + "a", 2), kMark + "a");  // there it is a character
  EXPECT_EQ(text_of_line("a\tb ", 1), "a\tb ");
}

// All 17 code points of category Zs, from UnicodeData.txt; beside them those that are none: zero width, line separator.
TEST(TextLines, SpacesOfUnicodeAreSpaces) {
  for (const char* space : {" ", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005",
                            "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u202f", "\u205f", "\u3000"}) {
    EXPECT_EQ(text_of_line("\u00e9" + std::string(space) + "b" + space, 3), "\u00e9 b ");
  }
  for (const char* other : {"\t", "\u0085", "\u180e", "\u200b", "\u2028", "\u2029", "\u2060", "\u3001"}) {
    EXPECT_EQ(text_of_line("a" + std::string(other), 3), "a" + std::string(other));
  }
}

TEST(TextLines, BytesThatAreNotUtf8AreRefusedByLine) {
  const auto refused = [](const std::string& line, const std::string& message) {
    try {
      text_of_line(line, 7);
      ADD_FAILURE() << message;
    } catch (const FormatError& error) {
      EXPECT_EQ(std::string(error.what()), "line 7: " + message + " is not UTF-8, which texts must be");
    }
    EXPECT_EQ(text_of_line(line, 7, {.replace_invalid = true}), line);
  };
  refused("caf\xe9", "byte 4 (0xe9)");
  refused("\u00e9\xff", "byte 3 (0xff)");
  refused("\x80", "byte 1 (0x80)");
  refused("\xc0\xaf", "byte 1 (0xc0)");          // longer than needed
  refused("a\xed\xa0\x80", "byte 2 (0xed)");     // half of a pair
  refused("\xf4\x90\x80\x80", "byte 1 (0xf4)");  // above U+10FFFF
  refused("\xe2\x82", "byte 1 (0xe2)");          // cut short
  EXPECT_EQ(text_of_line("\u20ac \U0001F600", 7), "\u20ac \U0001F600");
  EXPECT_EQ(text_of_line("\u00a0\xff", 7, {.replace_invalid = true}), " \xff");
  try {
    text_of_line(kMark + "\xff", 1, {}, "pairs.tsv");
    ADD_FAILURE();
  } catch (const FormatError& error) {
    EXPECT_EQ(std::string(error.what()), "pairs.tsv: line 1: byte 4 (0xff) is not UTF-8, which texts must be");
  }
}

TEST(TextLines, ExactOnesKeepEveryByte) {
  for (const std::string& line : {kMark + "a\u00a0b\r", std::string("\xff\r"), std::string("a\0b", 3)}) {
    EXPECT_EQ(text_of_line(line, 1, {.exact = true}), line);
  }
  EXPECT_EQ(text_of_line(std::string("a\0b", 3), 1), std::string("a\0b", 3));
}

}  // namespace
}  // namespace qkv
