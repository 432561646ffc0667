// Learns merges from the words of a text and their counts.
#include "text/byte_pairs.h"

#include <queue>
#include <tuple>
#include <unordered_map>

#include "core/stop.h"

namespace qkv::text {
namespace {

// Two symbols next to each other.
struct Neighbours {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // where they were seen; they may be gone there since, and words may repeat
};

struct CountedPair {
  std::int64_t count;
  SymbolPair pair;
  bool operator<(const CountedPair& other) const {  // std::priority_queue has the largest on top
    return std::tie(count, other.pair) < std::tie(other.count, pair);
  }
};

class Learner {
 public:
  explicit Learner(std::vector<CountedWord> words) : words_(std::move(words)) {
    StopTurns turns;
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      turns.next();
      count_neighbours(w, +1);
    }
    for (const auto& [key, found] : neighbours_) queue_.push({found.count, pair_of(key)});
  }

  // Joins the most frequent neighbours to `symbol`. False: none are left.
  bool join_next(std::uint32_t symbol, SymbolPair& joined) {
    StopTurns turns;
    while (!queue_.empty()) {
      turns.next();
      const CountedPair best = queue_.top();
      queue_.pop();
      const std::int64_t count = neighbours_[key_of(best.pair)].count;
      if (count < 2) continue;
      if (count != best.count) {  // some of them have become part of other symbols since
        queue_.push({count, best.pair});
        continue;
      }
      joined = best.pair;
      join(best.pair, symbol);
      return true;
    }
    return false;
  }

 private:
  static std::uint64_t key_of(const SymbolPair& pair) { return std::uint64_t{pair.first} << 32 | pair.second; }
  static SymbolPair pair_of(std::uint64_t key) {
    return {static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key)};
  }

  // `sign` +1 when a word comes, -1 when it goes.
  void count_neighbours(std::uint32_t w, int sign) {
    const CountedWord& word = words_[w];
    for (std::size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      Neighbours& found = neighbours_[key_of({word.symbols[i], word.symbols[i + 1]})];
      found.count += sign * word.count;
      if (sign > 0 && (found.words.empty() || found.words.back() != w)) found.words.push_back(w);
    }
  }

  void join(const SymbolPair& pair, std::uint32_t symbol) {
    const std::vector<std::uint32_t> words = std::move(neighbours_[key_of(pair)].words);
    neighbours_[key_of(pair)].words.clear();
    check_stop();
    StopTurns turns;
    for (const std::uint32_t w : words) {
      turns.next();
      std::vector<std::uint32_t>& symbols = words_[w].symbols;
      std::vector<std::uint32_t> shorter;
      for (std::size_t i = 0; i < symbols.size(); ++i) {
        const bool found = i + 1 < symbols.size() && symbols[i] == pair.first && symbols[i + 1] == pair.second;
        shorter.push_back(found ? symbol : symbols[i]);
        if (found) ++i;
      }
      if (shorter.size() == symbols.size()) continue;
      count_neighbours(w, -1);
      symbols = std::move(shorter);
      count_neighbours(w, +1);
      touched_.push_back(w);
    }
    // Only pairs with the new symbol have become more frequent.
    for (const std::uint32_t w : touched_) {
      const std::vector<std::uint32_t>& symbols = words_[w].symbols;
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        if (symbols[i] != symbol && symbols[i + 1] != symbol) continue;
        const SymbolPair now{symbols[i], symbols[i + 1]};
        const std::int64_t count = neighbours_[key_of(now)].count;
        std::int64_t& offered = offered_[key_of(now)];
        if (offered == count) continue;
        offered = count;
        queue_.push({count, now});
      }
    }
    touched_.clear();
    offered_.clear();
  }

  std::vector<CountedWord> words_;
  std::unordered_map<std::uint64_t, Neighbours> neighbours_;
  std::priority_queue<CountedPair> queue_;  // counts may be too high, never too low
  std::vector<std::uint32_t> touched_;
  std::unordered_map<std::uint64_t, std::int64_t> offered_;
};

}  // namespace

std::vector<SymbolPair> learn_byte_pairs(std::vector<CountedWord> words, std::uint32_t first_new, std::size_t most) {
  Learner learner(std::move(words));
  std::vector<SymbolPair> joined;
  for (SymbolPair pair; joined.size() < most;) {
    if (!learner.join_next(first_new + static_cast<std::uint32_t>(joined.size()), pair)) break;
    joined.push_back(pair);
  }
  return joined;
}

}  // namespace qkv::text
