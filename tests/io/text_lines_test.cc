// What belongs to the text of a line, and files of pairs of them.
#include "qkv/text_lines.h"

#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv {
namespace {

using test::message_of;

const std::string kMark = "\ufeff";

TEST(TextLines, AreTextsWithoutWhatSystemsAdd) {
  struct Line {
    std::string line;
    std::int64_t number;
    std::string text;
  };
  for (const Line& one : {Line{"", 1, ""},
                          {"a b", 1, "a b"},
                          {"a\tb ", 1, "a\tb "},
                          {"a\r", 1, "a"},
                          {"a\r\r", 1, "a\r"},
                          {"a\rb", 1, "a\rb"},
                          {kMark + "a\r", 1, "a"},
                          {kMark, 1, ""},
                          {kMark + kMark + "a", 1, kMark + "a"},
                          {kMark + "a", 2, kMark + "a"},  // there it is a character
                          {std::string("a\0b", 3), 1, std::string("a\0b", 3)},
                          {"\u20ac \U0001F600", 7, "\u20ac \U0001F600"}}) {
    EXPECT_EQ(text_of_line(one.line, one.number), one.text) << one.line;
  }
  for (const std::string& line : {kMark + "a\u00a0b\r", std::string("\xff\r"), std::string("a\0b", 3)}) {
    EXPECT_EQ(text_of_line(line, 1, {.exact = true}), line);
  }
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
  const std::pair<std::string, std::string> refused[] = {
      {"caf\xe9", "byte 4 (0xe9)"},          {"\u00e9\xff", "byte 3 (0xff)"}, {"\x80", "byte 1 (0x80)"},
      {"\xc0\xaf", "byte 1 (0xc0)"},          // longer than needed
      {"a\xed\xa0\x80", "byte 2 (0xed)"},     // half of a pair
      {"\xf4\x90\x80\x80", "byte 1 (0xf4)"},  // above U+10FFFF
      {"\xe2\x82", "byte 1 (0xe2)"}};         // cut short
  for (const auto& [line, place] : refused) {
    EXPECT_EQ(message_of<FormatError>([&, line = line] { text_of_line(line, 7); }),
              "line 7: " + place + " is not UTF-8, which texts must be");
    EXPECT_EQ(text_of_line(line, 7, {.replace_invalid = true}), line);
  }
  EXPECT_EQ(text_of_line("\u00a0\xff", 7, {.replace_invalid = true}), " \xff");
  EXPECT_EQ(message_of<FormatError>([] { text_of_line(kMark + "\xff", 1, {}, "pairs.tsv"); }),
            "pairs.tsv: line 1: byte 4 (0xff) is not UTF-8, which texts must be");
}

TEST(ReadPairs, OneALine) {
  const test::TemporaryFolder folder;
  const auto pairs = read_pairs(folder.put("a", "\ufeffYou\u00a0are welcome\tDe\u2003nada\r\n a \t b "));
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].source, "You are welcome");
  EXPECT_EQ(pairs[0].target, "De nada");
  EXPECT_EQ(pairs[1].source, " a ");
  EXPECT_EQ(pairs[1].target, " b ");
  EXPECT_TRUE(read_pairs(folder.put("b", "")).empty());
}

TEST(ReadPairs, RefusesOtherLines) {
  test::expect_refused({{"a\tb\nc\n", "line 2 must be a text, a tab and its translation"},
                        {"a\tb\tc\n", "line 1"},
                        {"a\tb\n\nc\td\n", "line 2"},
                        {"\tb", "line 1"},
                        {"a\t", "line 1"},
                        {"a\t\r\n", "line 1"},
                        {"a\tb\nc\tcaf\xe9\n", "line 2: byte 6 (0xe9) is not UTF-8"}},
                       "pairs", [](const std::string& path) { read_pairs(path); });
}

}  // namespace
}  // namespace qkv
