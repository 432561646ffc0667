// Of all ways to cut a word into pieces, the one whose scores have the largest sum (Viterbi's algorithm). Source: Kudo,
// "Subword regularization" (2018).
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/stop.h"
#include "text/trie.h"

namespace qkv::text {

// Characters begin <= i < end of the word.
struct CutPiece {
  std::uint32_t piece;  // its number in the trie
  std::size_t begin;
  std::size_t end;
};

// What a character is that is no piece alone; neighbouring ones are joined in the result.
template <class Sum>
struct UnknownPiece {
  std::uint32_t piece;
  Sum score;
};

// `scores`: of the pieces, by their numbers. Sums are rounded to Sum.
template <class Sum>
std::vector<CutPiece> best_cut(CharacterSpan word, const Trie& trie, std::span<const Sum> scores,
                               const UnknownPiece<Sum>& unknown) {
  // The best way to cut what lies before each position: its last piece, and the sum of the scores.
  struct Best {
    std::uint32_t piece = 0;
    std::size_t begin = 0;
    Sum sum = 0;
    bool is_reached = false;
  };
  std::vector<Best> best(word.size() + 1);
  StopTurns turns;
  for (std::size_t at = 0; at < word.size(); ++at) {
    turns.next();
    const auto offer = [&](std::size_t end, std::uint32_t piece, double sum) {
      if (!best[end].is_reached || sum > best[end].sum) best[end] = {piece, at, static_cast<Sum>(sum), true};
    };
    bool alone = false;  // whether the character itself is a piece
    Trie::Node node = Trie::kRoot;
    for (std::size_t end = at; end < word.size();) {
      node = trie.child(node, word[end++].code);
      if (node == Trie::kNone) break;
      const std::uint32_t piece = trie.value(node);
      if (piece == Trie::kNoValue) continue;
      offer(end, piece, double{scores[piece]} + best[at].sum);
      if (end == at + 1) alone = true;
    }
    if (!alone) offer(at + 1, unknown.piece, unknown.score + best[at].sum);
  }
  std::vector<CutPiece> pieces;
  for (std::size_t end = word.size(); end > 0; end = best[end].begin) {
    if (best[end].piece == unknown.piece && !pieces.empty() && pieces.back().piece == unknown.piece) {
      pieces.back().begin = best[end].begin;
    } else {
      pieces.push_back({best[end].piece, best[end].begin, end});
    }
  }
  std::ranges::reverse(pieces);
  return pieces;
}

}  // namespace qkv::text
