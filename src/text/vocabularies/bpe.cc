// Joins the pieces of a word by the merges of a byte-pair vocabulary, and learns merges.
#include "text/vocabularies/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <unordered_map>

#include "core/stop.h"
#include "io/files/text.h"

namespace qkv::text {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

std::uint64_t pair_of(std::uint32_t left, std::uint32_t right) { return std::uint64_t{left} << 32 | right; }

// A join that could be done; the one of lowest rank goes first, of the same rank the leftmost.
struct Candidate {
  std::uint32_t rank;
  std::uint32_t at;                               // its left symbol
  std::uint32_t result;                           // is still meant if this is what the two give now
  bool operator<(const Candidate& other) const {  // std::priority_queue has the largest on top
    return std::tie(other.rank, other.at) < std::tie(rank, at);
  }
};

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)), unknown_(kNone) {
  if (!options_.unknown_token.empty()) unknown_ = known(options_.unknown_token, "unknown token");
}

std::uint32_t Bpe::known(std::string_view token, std::string_view role) const {
  const std::uint32_t found = index_of(token);
  if (found == kNone)
    throw std::invalid_argument(fmt::format("{} {} is not in the vocabulary", role, io::quote(token)));
  return found;
}

void Bpe::add_merge(std::string_view left, std::string_view right) {
  const std::uint32_t rank = merges_++;
  if (!right.starts_with(options_.continuing_prefix)) {
    throw std::invalid_argument(
        fmt::format("merge {}: {} lacks the prefix {}", rank, io::quote(right), io::quote(options_.continuing_prefix)));
  }
  const auto known_part = [&](std::string_view token) {
    const std::uint32_t found = index_of(token);
    return found != kNone ? found : known(token, fmt::format("merge {}:", rank));
  };
  std::string joined(left);
  joined += right.substr(options_.continuing_prefix.size());
  const std::uint32_t result = known_part(joined);
  joins_.insert_or_assign(pair_of(known_part(left), known_part(right)), Join{rank, result});
}

void Bpe::add_to(Sha256& digest) const {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> merges;  // ranks, and what is joined
  for (const auto& [pair, join] : joins_) merges.emplace_back(join.rank, pair);
  std::ranges::sort(merges);
  for (const auto& [rank, pair] : merges) digest.add_number(pair);
}

void Bpe::build_index() {
  StopTurns turns;
  for (std::uint32_t i = 0; i < vocabulary_.entries().size(); ++i) {
    turns.next();
    const std::string& token = vocabulary_.entries()[i].token;
    if (token.empty()) continue;
    const Decoded first = decode_utf8(token);
    if (first.size == token.size()) single_entries_[first.code] = i;
  }
}

std::uint32_t Bpe::index_of(std::string_view token) const {
  const Vocabulary::Entry* entry = vocabulary_.find(token);
  return entry == nullptr ? kNone : static_cast<std::uint32_t>(entry - vocabulary_.entries().data());
}

void Bpe::append_character(CharacterSpan word, std::size_t at, std::vector<Symbol>& symbols) const {
  const bool marked =
      (at > 0 && !options_.continuing_prefix.empty()) || (at + 1 == word.size() && !options_.word_suffix.empty());
  const auto begin = static_cast<std::uint32_t>(at);
  if (!marked) {
    const auto single = single_entries_.find(word[at].code);
    if (single != single_entries_.end()) {
      symbols.push_back({single->second, begin, begin + 1, 0, 0});
      return;
    }
  }
  std::string text = at > 0 ? options_.continuing_prefix : "";
  append_utf8(text, word[at].code);
  if (at + 1 == word.size()) text += options_.word_suffix;
  const std::uint32_t entry = marked ? index_of(text) : kNone;
  if (entry != kNone) {
    symbols.push_back({entry, begin, begin + 1, 0, 0});
  } else {
    append_unknown(text, at, symbols);
  }
}

void Bpe::append_unknown(const std::string& text, std::size_t at, std::vector<Symbol>& symbols) const {
  const auto begin = static_cast<std::uint32_t>(at);
  if (options_.byte_fallback) {
    const std::size_t before = symbols.size();
    for (const char byte : text) {
      const std::uint32_t entry = index_of(fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte)));
      if (entry == kNone) break;
      symbols.push_back({entry, begin, begin + 1, 0, 0});
    }
    if (symbols.size() - before == text.size()) return;
    symbols.resize(before);
  }
  if (unknown_ == kNone) return;
  if (options_.fuse_unknown && !symbols.empty() && symbols.back().entry == unknown_ && symbols.back().end == begin) {
    symbols.back().end = begin + 1;
  } else {
    symbols.push_back({unknown_, begin, begin + 1, 0, 0});
  }
}

void Bpe::join_all(std::vector<Symbol>& symbols) const {
  std::priority_queue<Candidate> queue;
  const auto join_of = [&](std::uint32_t left) -> const Join* {
    const std::uint32_t right = symbols[left].next;
    if (right == kNone) return nullptr;
    const auto found = joins_.find(pair_of(symbols[left].entry, symbols[right].entry));
    return found == joins_.end() ? nullptr : &found->second;
  };
  const auto offer = [&](std::uint32_t left) {
    if (const Join* join = join_of(left)) queue.push({join->rank, left, join->result});
  };
  const auto count = static_cast<std::uint32_t>(symbols.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    symbols[i].previous = i == 0 ? kNone : i - 1;
    symbols[i].next = i + 1 == count ? kNone : i + 1;
  }
  StopTurns turns;
  for (std::uint32_t i = 0; i < count; ++i) {
    turns.next();
    offer(i);
  }
  while (!queue.empty()) {
    turns.next();
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.at];
    if (left.entry == kNone) continue;
    const Join* join = join_of(best.at);
    if (join == nullptr || join->result != best.result) continue;
    Symbol& right = symbols[left.next];
    left.entry = join->result;
    left.end = right.end;
    right.entry = kNone;  // no longer there
    left.next = right.next;
    if (left.next != kNone) symbols[left.next].previous = best.at;
    if (left.previous != kNone) offer(left.previous);
    offer(best.at);
  }
}

void Bpe::tokenize(CharacterSpan word, std::vector<Piece>& pieces) const {
  if (options_.ignore_merges) {
    if (const Vocabulary::Entry* whole = vocabulary_.find(to_utf8(word))) {
      pieces.push_back({whole, 0, word.size()});
      return;
    }
  }
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  StopTurns turns;
  for (std::size_t at = 0; at < word.size(); ++at) {
    turns.next();
    append_character(word, at, symbols);
  }
  join_all(symbols);
  for (const Symbol& symbol : symbols) {
    if (symbol.entry != kNone) pieces.push_back({&vocabulary_.entries()[symbol.entry], symbol.begin, symbol.end});
  }
}

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
