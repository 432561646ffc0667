// Where tokens are found: by text and id, as the longest match, among the added ones; and merges as they are learned.
#include "text/vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "qkv/random.h"
#include "text/added_tokens.h"
#include "text/bert_normalizer.h"
#include "text/byte_pairs.h"
#include "text/trie.h"

namespace qkv::text {
namespace {

TEST(Vocabulary, FindsByTokenAndById) {
  const Vocabulary vocabulary({{"b", 7}, {"a", 2147483647}, {"", 0}});
  EXPECT_EQ(vocabulary.find("b")->id, 7);
  EXPECT_EQ(vocabulary.find(2147483647)->token, "a");
  EXPECT_EQ(vocabulary.find("c"), nullptr);
  EXPECT_EQ(vocabulary.find(1), nullptr);
  EXPECT_EQ(vocabulary.max_id(), 2147483647);
  EXPECT_EQ(Vocabulary().max_id(), -1);
  EXPECT_THROW(Vocabulary({{"a", 1}, {"a", 2}}), std::invalid_argument);
  EXPECT_THROW(Vocabulary({{"a", 1}, {"b", 1}}), std::invalid_argument);
}

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

TEST(AddedTokens, AreFoundInTexts) {
  const AddedToken cat{.content = "cat", .id = 1, .single_word = true};
  const std::vector<AddedToken> three = {
      {.content = "ab", .id = 1}, {.content = "abcd", .id = 2}, {.content = "bcx", .id = 3}};
  struct Case {
    std::vector<AddedToken> tokens;
    std::string_view text;
    std::string expected;  // each token found as <id:text>
  };
  const Case cases[] = {{three, "xabcdab", "x<2:abcd><1:ab>"},
                        {three, "abcx", "<1:ab>cx"},  // ab begins before bcx
                        {three, "", ""},
                        {{{.content = "M", .id = 1, .lstrip = true}}, "a \tM b", "a<1: \tM> b"},
                        {{{.content = "M", .id = 1, .rstrip = true}}, "a M \u3000b", "a <1:M \u3000>b"},
                        {{{.content = "M", .id = 1, .lstrip = true, .rstrip = true}}, " M M ", "<1: M ><1:M >"},
                        {{cat}, "cat cats -cat- \u00e9cat cat_ cat", "<1:cat> cats -<1:cat>- \u00e9cat cat_ <1:cat>"}};
  for (const Case& one : cases) {
    const AddedTokens added(one.tokens, nullptr);
    const Characters characters = to_characters(one.text);
    std::string marked;
    for (const AddedTokens::Section& section : added.split(characters, false)) {
      const std::string part = to_utf8(section.text);
      marked += section.token == nullptr ? part : "<" + std::to_string(section.token->id) + ":" + part + ">";
    }
    EXPECT_EQ(marked, one.expected);
  }
}

TEST(AddedTokens, NormalizedOnesAreFoundInTheirNormalForm) {
  const BertNormalizer normalizer({});
  const AddedTokens added({{.content = "\u00c9tude", .id = 5, .normalized = true}}, &normalizer);
  const Characters text = to_characters("an etude");
  EXPECT_EQ(added.split(text, false).size(), 1u);
  ASSERT_EQ(added.split(text, true).size(), 2u);
  EXPECT_EQ(added.split(text, true)[1].token->id, 5);
  EXPECT_EQ(added.form(*added.find(5)), "etude");
}

TEST(AddedTokens, RefusesEmptyAndRepeated) {
  const BertNormalizer normalizer({});
  for (const std::vector<AddedToken>& tokens : {std::vector<AddedToken>{{.content = "", .id = 1}},
                                                {{.content = "a", .id = 1}, {.content = "a", .id = 2}},
                                                {{.content = "a", .id = 1}, {.content = "b", .id = 1}},
                                                {{.content = "\x01", .id = 1, .normalized = true}}}) {
    EXPECT_THROW(AddedTokens(tokens, &normalizer), std::invalid_argument);
  }
}

// The definition itself: count all neighbours anew before each join.
std::vector<SymbolPair> learned_slowly(std::vector<CountedWord> words, std::uint32_t first_new, std::size_t most) {
  std::vector<SymbolPair> joined;
  while (joined.size() < most) {
    std::map<SymbolPair, std::int64_t> counts;
    for (const CountedWord& word : words) {
      for (std::size_t i = 0; i + 1 < word.symbols.size(); ++i) {
        counts[{word.symbols[i], word.symbols[i + 1]}] += word.count;
      }
    }
    const auto best = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second < b.second : a.first > b.first;
    });
    if (best == counts.end() || best->second < 2) break;
    const auto symbol = first_new + static_cast<std::uint32_t>(joined.size());
    for (CountedWord& word : words) {
      std::vector<std::uint32_t> shorter;
      for (const std::uint32_t next : word.symbols) {
        shorter.push_back(next);
        // A symbol that was joined is new, and in no pair yet.
        if (shorter.size() > 1 && SymbolPair(shorter.end()[-2], next) == best->first) {
          shorter.pop_back();
          shorter.back() = symbol;
        }
      }
      word.symbols = shorter;
    }
    joined.push_back(best->first);
  }
  return joined;
}

TEST(BytePairs, ByHand) {
  // Sennrich's example: low 5, lower 2, newest 6, widest 3; letters by position in the alphabet.
  const auto word = [](const std::string& letters, std::int64_t count) {
    CountedWord result{{}, count};
    for (const char letter : letters) result.symbols.push_back(static_cast<std::uint32_t>(letter - 'a'));
    return result;
  };
  const std::vector<CountedWord> words = {word("low", 5), word("lower", 2), word("newest", 6), word("widest", 3)};
  // e s and s t come 9 times each, then so does es t, then l o and o w 7 times each.
  const std::vector<SymbolPair> expected = {{'e' - 'a', 's' - 'a'}, {26, 't' - 'a'}, {'l' - 'a', 'o' - 'a'}};
  EXPECT_EQ(learn_byte_pairs(words, 26, 3), expected);
  EXPECT_EQ(learn_byte_pairs({word("ab", 1), word("cd", 1)}, 26, 9), std::vector<SymbolPair>());
  EXPECT_EQ(learn_byte_pairs({}, 26, 9), std::vector<SymbolPair>());
  EXPECT_EQ(learn_byte_pairs({word("aaaa", 1)}, 26, 9), (std::vector<SymbolPair>{{0, 0}}));
}

TEST(BytePairs, AgreesWithTheDefinition) {
  Random random(7);
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random.below(n)); };
  for (int round = 0; round < 200; ++round) {
    std::vector<CountedWord> words(below(20));
    const std::uint32_t letters = 1 + below(5);
    for (CountedWord& word : words) {
      word.count = 1 + below(4);
      word.symbols.resize(below(12));
      for (std::uint32_t& symbol : word.symbols) symbol = below(letters);
    }
    const auto expected = learned_slowly(words, letters, 30);
    EXPECT_EQ(learn_byte_pairs(words, letters, 30), expected) << "round " << round;
    std::reverse(words.begin(), words.end());
    EXPECT_EQ(learn_byte_pairs(words, letters, 30), expected) << "round " << round;
  }
}

}  // namespace
}  // namespace qkv::text
