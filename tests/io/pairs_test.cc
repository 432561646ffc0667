// Files of pairs: what is read, and the fault of each bad line.
#include <gtest/gtest.h>

#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv {
namespace {

TEST(ReadPairs, OneALine) {
  const test::TemporaryFolder folder;
  const auto pairs = read_pairs(folder.put("a", "You are welcome\tDe nada\r\n a \t b "));
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].source, "You are welcome");
  EXPECT_EQ(pairs[0].target, "De nada");
  EXPECT_EQ(pairs[1].source, " a ");
  EXPECT_EQ(pairs[1].target, " b ");
  EXPECT_TRUE(read_pairs(folder.put("b", "")).empty());
}

// As lines of standard input (text_lines_test.cc).
TEST(ReadPairs, AreTexts) {
  const test::TemporaryFolder folder;
  const auto pairs = read_pairs(folder.put("a",
                                           "\xef\xbb\xbf"
                                           "You\u00a0are\tDe\u2003nada\r\n"));
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].source, "You are");
  EXPECT_EQ(pairs[0].target, "De nada");
  test::expect_refused({{"a\tb\nc\tcaf\xe9\n", "line 2: byte 6 (0xe9) is not UTF-8"}}, "pairs",
                       [](const std::string& path) { read_pairs(path); });
}

TEST(ReadPairs, RefusesOtherLines) {
  test::expect_refused({{"a\tb\nc\n", "line 2 must be a text, a tab and its translation"},
                        {"a\tb\tc\n", "line 1"},
                        {"a\tb\n\nc\td\n", "line 2"},
                        {"\tb", "line 1"},
                        {"a\t", "line 1"},
                        {"a\t\r\n", "line 1"}},
                       "pairs", [](const std::string& path) { read_pairs(path); });
}

}  // namespace
}  // namespace qkv
