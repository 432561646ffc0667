// Learns which neighbours to join: again and again the two that are most often next to each other become one symbol.
// Source: Sennrich et al., "Neural machine translation of rare words with subword units" (2016).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace qkv::text {

struct CountedWord {
  std::vector<std::uint32_t> symbols;
  std::int64_t count;
};

using SymbolPair = std::pair<std::uint32_t, std::uint32_t>;

// At most `most` joins; the i-th makes the symbol first_new + i. Of neighbours that are as frequent, those of the lower
// left symbol go first, then those of the lower right one; what is seen once is not joined. So the result depends on
// the words and their counts alone, not on their order.
std::vector<SymbolPair> learn_byte_pairs(std::vector<CountedWord> words, std::uint32_t first_new, std::size_t most);

}  // namespace qkv::text
