// Finds the cut of a word with the largest sum of scores.
#include "text/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/stop.h"
#include "text/best_cut.h"

namespace qkv::text {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score, as sentencepiece has it

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, const std::vector<double>& scores, const UnigramOptions& options)
    : vocabulary_(std::move(vocabulary)),
      unknown_(vocabulary_.find(options.unknown_id)),
      unknown_score_(0),
      byte_fallback_(options.byte_fallback) {
  if (unknown_ == nullptr) {
    throw std::invalid_argument(fmt::format("there is no token {}", options.unknown_id));
  }
  unknown_score_ = *std::min_element(scores.begin(), scores.end()) - kUnknownPenalty;
  scores_.reserve(scores.size());
  for (const Vocabulary::Entry& entry : vocabulary_.entries()) {
    scores_.push_back(scores[static_cast<std::size_t>(entry.id)]);
  }
}

void Unigram::build_index() {
  StopTurns turns;
  for (std::uint32_t i = 0; i < vocabulary_.entries().size(); ++i) {
    turns.next();
    trie_.insert(to_code_points(vocabulary_.entries()[i].token), i);
  }
}

void Unigram::tokenize(CharacterSpan word, std::vector<Piece>& pieces) const {
  const auto unknown = static_cast<std::uint32_t>(unknown_ - vocabulary_.entries().data());
  for (const CutPiece& cut : best_cut<double>(word, trie_, scores_, {unknown, unknown_score_})) {
    const Piece piece{&vocabulary_.entries()[cut.piece], cut.begin, cut.end};
    if (cut.piece == unknown) {
      append_unknown(word, piece, pieces);
    } else {
      pieces.push_back(piece);
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
