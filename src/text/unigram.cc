// Finds the cut of a word with the largest sum of scores.
#include "text/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace qkv::text {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score, as sentencepiece has it

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options)
    : vocabulary_(std::move(vocabulary)),
      scores_(std::move(scores)),
      unknown_(vocabulary_.find(options.unknown_id)),
      unknown_score_(0),
      byte_fallback_(options.byte_fallback) {
  if (unknown_ == nullptr) {
    throw std::invalid_argument(fmt::format("there is no token {}", options.unknown_id));
  }
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
}

void Unigram::build_index() {
  for (std::uint32_t i = 0; i < vocabulary_.entries().size(); ++i) {
    trie_.insert(to_code_points(vocabulary_.entries()[i].token), i);
  }
}

void Unigram::tokenize(CharacterSpan word, std::vector<Piece>& pieces) const {
  // The best way to cut what lies before each position: its last piece, and the sum of the scores.
  struct Best {
    const Vocabulary::Entry* entry = nullptr;
    std::size_t begin = 0;
    double score = 0;
  };
  std::vector<Best> best(word.size() + 1);
  for (std::size_t at = 0; at < word.size(); ++at) {
    const auto offer = [&](std::size_t end, const Vocabulary::Entry* entry, double score) {
      score += best[at].score;
      if (best[end].entry == nullptr || score > best[end].score) best[end] = {entry, at, score};
    };
    bool alone = false;  // whether the character itself is a piece
    Trie::Node node = Trie::kRoot;
    for (std::size_t end = at; end < word.size();) {
      node = trie_.child(node, word[end++].code);
      if (node == Trie::kNone) break;
      if (trie_.value(node) == Trie::kNoValue) continue;
      const Vocabulary::Entry& entry = vocabulary_.entries()[trie_.value(node)];
      offer(end, &entry, scores_[static_cast<std::size_t>(entry.id)]);
      if (end == at + 1) alone = true;
    }
    if (!alone) offer(at + 1, unknown_, unknown_score_);
  }
  std::vector<Piece> backwards;  // neighbouring unknown characters are one piece
  for (std::size_t end = word.size(); end > 0; end = best[end].begin) {
    const bool joins = best[end].entry == unknown_ && !backwards.empty() && backwards.back().entry == unknown_;
    if (joins) {
      backwards.back().begin = best[end].begin;
    } else {
      backwards.push_back({best[end].entry, best[end].begin, end});
    }
  }
  for (auto piece = backwards.rbegin(); piece != backwards.rend(); ++piece) {
    if (piece->entry == unknown_) {
      append_unknown(word, *piece, pieces);
    } else {
      pieces.push_back(*piece);
    }
  }
}

void Unigram::append_unknown(CharacterSpan word, const Piece& piece, std::vector<Piece>& pieces) const {
  const std::string text = to_utf8(word.subspan(piece.begin, piece.end - piece.begin));
  if (const Vocabulary::Entry* known = vocabulary_.find(text)) {  // joined, it may be a piece after all
    pieces.push_back({known, piece.begin, piece.end});
    return;
  }
  const std::size_t before = pieces.size();
  for (const char byte : byte_fallback_ ? std::string_view(text) : std::string_view()) {
    const auto* entry = vocabulary_.find(fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte)));
    if (entry == nullptr) break;
    pieces.push_back({entry, piece.begin, piece.end});
  }
  if (byte_fallback_ && pieces.size() - before == text.size()) return;
  pieces.resize(before);
  pieces.push_back({unknown_, piece.begin, piece.end});
}

}  // namespace qkv::text
