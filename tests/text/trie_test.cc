// The longest match of a trie against a map of all strings.
#include "text/trie.h"

#include <gtest/gtest.h>

#include <map>

#include "qkv/random.h"

namespace qkv::text {
namespace {

TEST(Trie, FindsTheLongest) {
  Trie trie;
  trie.insert(U"a", 1);
  trie.insert(U"abc", 2);
  trie.insert(U"##b", 3);
  const Characters text = to_characters("abcd");
  EXPECT_EQ(trie.longest(text).value, 2u);
  EXPECT_EQ(trie.longest(text).length, 3u);
  EXPECT_EQ(trie.longest(CharacterSpan(text).first(2)).length, 1u);
  EXPECT_EQ(trie.longest(CharacterSpan(text).subspan(3)).length, 0u);
  EXPECT_EQ(trie.longest(CharacterSpan(text).subspan(1), trie.find(U"##")).value, 3u);
  EXPECT_EQ(trie.find(U"x"), Trie::kNone);
  EXPECT_EQ(trie.value(trie.find(U"ab")), Trie::kNoValue);
}

TEST(Trie, AgreesWithAMap) {
  Random random(1);
  Trie trie;
  std::map<std::u32string, std::uint32_t> map;
  for (std::uint32_t i = 0; i < 20000; ++i) {
    std::u32string text;
    for (std::uint64_t left = 1 + random.below(5); left > 0; --left) {
      text.push_back(static_cast<char32_t>(random.below(2) == 0 ? 'a' + random.below(4) : 0x10FF00 + random.below(4)));
    }
    map[text] = i;
    trie.insert(text, i);
  }
  for (const auto& [text, value] : map) ASSERT_EQ(trie.value(trie.find(text)), value);
}

}  // namespace
}  // namespace qkv::text
