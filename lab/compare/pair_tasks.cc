// Draws reversals, and reads phrases as words.
#include "lab/compare/pair_tasks.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <sstream>

#include "qkv/files.h"
#include "qkv/random.h"

namespace qkv::comparison {
namespace {

constexpr std::int32_t kPairSymbols = 10;
constexpr std::array<std::int64_t, 6> kReversed = {1, 2, 4, 6, 8, 10};
constexpr std::int64_t kMostWords = 6;

using WordNumbers = std::map<std::string, std::int32_t>;

std::vector<std::int32_t> words_of(const std::string& text, WordNumbers& numbers) {
  std::vector<std::int32_t> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    words.push_back(numbers.try_emplace(word, static_cast<std::int32_t>(numbers.size())).first->second);
  }
  return words;
}

}  // namespace

EncoderDecoderTokens reversal_tokens(std::int64_t positions) {
  return {.vocab = kPairSymbols + 2,
          .positions = positions,
          .end = kPairSymbols,
          .padding = kPairSymbols + 1,
          .start = kPairSymbols + 1};
}

std::span<const std::int64_t> reversal_extents() { return kReversed; }

TokenPair draw_reversal(std::int64_t extent, std::uint64_t seed, std::uint64_t number) {
  Random random(seed, number);
  TokenPair pair;
  for (std::int64_t i = 0; i < extent; ++i) {
    pair.source.push_back(static_cast<std::int32_t>(random.below(kPairSymbols)));
  }
  pair.target.assign(pair.source.rbegin(), pair.source.rend());
  pair.source.push_back(kPairSymbols);
  pair.target.push_back(kPairSymbols);
  return pair;
}

TokenPair ReversalExamples::example(std::int64_t i) const {
  const auto number = static_cast<std::uint64_t>(i);
  Random random(~seed_, number);
  const auto extent = 1 + random.below(static_cast<std::uint64_t>(kReversed.back()));
  return draw_reversal(static_cast<std::int64_t>(extent), seed_, number);
}

ExampleSize ReversalExamples::size(std::int64_t i) const {
  const std::int64_t length = std::ssize(example(i).target);
  return {.cost = 2 * length, .length = length};
}

std::uint32_t ReversalExamples::checksum() const { return philox({static_cast<std::uint32_t>(count_)}, seed_)[0]; }

PairBatch ReversalExamples::collect(std::span<const std::uint32_t> chosen) const {
  std::vector<TokenPair> pairs;
  for (const std::uint32_t number : chosen) pairs.push_back(example(number));
  std::vector<std::uint32_t> all(pairs.size());
  std::iota(all.begin(), all.end(), 0u);
  return PairExamples(pairs).collect(all);
}

PhraseBook read_phrase_book(const std::string& path) {
  PhraseBook book;
  WordNumbers source, target;
  for (const TextPair& pair : read_pairs(path)) {
    book.pairs.push_back({words_of(pair.source, source), words_of(pair.target, target)});
    const std::int64_t words = std::ssize(book.pairs.back().source);
    book.by_words[std::min(words, kMostWords)].push_back(book.pairs.size() - 1);
  }
  // The end and the start have one number on both sides.
  const auto most = static_cast<std::int32_t>(std::max(source.size(), target.size()));
  std::int64_t longest = 0;
  for (TokenPair& pair : book.pairs) {
    pair.source.push_back(most);
    pair.target.push_back(most);
    longest = std::max({longest, std::ssize(pair.source), std::ssize(pair.target)});
  }
  book.tokens = {.vocab = most + 2,
                 .target_vocab = most + 2,
                 .positions = longest + 1,
                 .end = most,
                 .padding = most + 1,
                 .start = most + 1};
  return book;
}

}  // namespace qkv::comparison
