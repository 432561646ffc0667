// Added tokens in texts, by hand.
#include "text/added_tokens.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "text/normalizers.h"

namespace qkv::text {
namespace {

// The text with each token found as <id:text>.
std::string marked(const std::vector<AddedToken>& tokens, std::string_view text) {
  const AddedTokens added(tokens, nullptr);
  const Characters characters = to_characters(text);
  std::string result;
  for (const AddedTokens::Section& section : added.split(characters, false)) {
    const std::string part = to_utf8(section.text);
    result += section.token == nullptr ? part : "<" + std::to_string(section.token->id) + ":" + part + ">";
  }
  return result;
}

TEST(AddedTokens, LeftmostLongest) {
  const std::vector<AddedToken> tokens = {
      {.content = "ab", .id = 1}, {.content = "abcd", .id = 2}, {.content = "bcx", .id = 3}};
  EXPECT_EQ(marked(tokens, "xabcdab"), "x<2:abcd><1:ab>");
  EXPECT_EQ(marked(tokens, "abcx"), "<1:ab>cx");  // ab begins before bcx
  EXPECT_EQ(marked(tokens, ""), "");
}

TEST(AddedTokens, StripTakesTheSpaceAround) {
  EXPECT_EQ(marked({{.content = "M", .id = 1, .lstrip = true}}, "a \tM b"), "a<1: \tM> b");
  EXPECT_EQ(marked({{.content = "M", .id = 1, .rstrip = true}},
                   "a M \xE3\x80\x80"
                   "b"),
            "a <1:M \xE3\x80\x80>b");
  EXPECT_EQ(marked({{.content = "M", .id = 1, .lstrip = true, .rstrip = true}}, " M M "), "<1: M ><1:M >");
}

TEST(AddedTokens, SingleWordsAreNotInsideWords) {
  const std::vector<AddedToken> tokens = {{.content = "cat", .id = 1, .single_word = true}};
  EXPECT_EQ(marked(tokens,
                   "cat cats -cat- \xC3\xA9"
                   "cat cat_ cat"),
            "<1:cat> cats -<1:cat>- \xC3\xA9"
            "cat cat_ <1:cat>");
}

TEST(AddedTokens, NormalizedOnesAreFoundInTheirNormalForm) {
  const BertNormalizer normalizer({});
  const AddedTokens added({{.content = "\xC3\x89tude", .id = 5, .normalized = true}}, &normalizer);
  const Characters text = to_characters("an etude");
  EXPECT_EQ(added.split(text, false).size(), 1u);
  ASSERT_EQ(added.split(text, true).size(), 2u);
  EXPECT_EQ(added.split(text, true)[1].token->id, 5);
  EXPECT_EQ(added.form(*added.find(5)), "etude");
}

TEST(AddedTokens, RefusesEmptyAndRepeated) {
  EXPECT_THROW(AddedTokens({{.content = "", .id = 1}}, nullptr), std::invalid_argument);
  EXPECT_THROW(AddedTokens({{.content = "a", .id = 1}, {.content = "a", .id = 2}}, nullptr), std::invalid_argument);
  EXPECT_THROW(AddedTokens({{.content = "a", .id = 1}, {.content = "b", .id = 1}}, nullptr), std::invalid_argument);
  const BertNormalizer normalizer({});
  EXPECT_THROW(AddedTokens({{.content = "\x01", .id = 1, .normalized = true}}, &normalizer), std::invalid_argument);
}

}  // namespace
}  // namespace qkv::text
