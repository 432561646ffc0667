// Learned merges against a plain count of all pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "text/bpe.h"

namespace qkv::text {
namespace {

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
      for (std::size_t i = 0; i < word.symbols.size(); ++i) {
        const bool found =
            i + 1 < word.symbols.size() && SymbolPair(word.symbols[i], word.symbols[i + 1]) == best->first;
        shorter.push_back(found ? symbol : word.symbols[i]);
        if (found) ++i;
      }
      word.symbols = shorter;
    }
    joined.push_back(best->first);
  }
  return joined;
}

TEST(BytePairs, ByHand) {
  // Sennrich's example: low 5, lower 2, newest 6, widest 3; letters by position in the alphabet.
  const auto word = [](const char* letters, std::int64_t count) {
    CountedWord result{{}, count};
    for (; *letters != '\0'; ++letters) result.symbols.push_back(static_cast<std::uint32_t>(*letters - 'a'));
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
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
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
