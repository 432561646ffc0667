// Cuts words with the numbers of sentencepiece: sums are float32.
#include "text/sentence_piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/stop.h"
#include "text/best_cut.h"

namespace qkv::text {
namespace {

using Type = io::SentencePieceFile::Type;

}  // namespace

SentencePiece::SentencePiece(io::SentencePieceFile file, Vocabulary vocabulary, std::string_view unknown_token)
    : file_(std::move(file)), vocabulary_(std::move(vocabulary)), unknown_(vocabulary_.find(unknown_token)) {
  if (file_.kind != io::SentencePieceFile::Kind::unigram) {
    constexpr const char* kNames[] = {"unigram", "bpe", "word", "char"};
    const auto kind = static_cast<std::size_t>(file_.kind);
    throw std::invalid_argument(
        fmt::format("trainer_spec.model_type is {} ({}), only 1 (unigram) is supported", kind, kNames[kind - 1]));
  }
  if (unknown_ == nullptr) throw std::invalid_argument(fmt::format("the vocabulary has no {}", unknown_token));
  constexpr float kUnknownPenalty = 10;
  float least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::min();
  for (const auto& piece : file_.pieces) {
    if (piece.type != Type::normal) continue;
    least = std::min(least, piece.score);
    most = std::max(most, piece.score);
  }
  unknown_score_ = least - kUnknownPenalty;
  StopTurns turns;
  for (std::uint32_t i = 0; i < file_.pieces.size(); ++i) {
    turns.next();
    const auto& piece = file_.pieces[i];
    // What a user defined is always chosen: such a score beats any other way to cut it.
    const bool is_users = piece.type == Type::user_defined;
    scores_.push_back(is_users ? static_cast<float>(static_cast<float>(piece.text.size()) * most - 0.1) : piece.score);
    entries_.push_back(entry_of(piece.text));
    if (piece.type == Type::unknown) unknown_piece_ = i;
  }
}

void SentencePiece::build_index() {
  for (std::uint32_t i = 0; i < file_.pieces.size(); ++i) {
    const auto& piece = file_.pieces[i];
    if (piece.type == Type::normal || piece.type == Type::user_defined) trie_.insert(to_code_points(piece.text), i);
  }
}

const Vocabulary::Entry* SentencePiece::entry_of(const std::string& piece) const {
  const Vocabulary::Entry* entry = vocabulary_.find(piece);
  return entry == nullptr ? unknown_ : entry;
}

void SentencePiece::tokenize(CharacterSpan word, std::vector<Piece>& pieces) const {
  for (const CutPiece& cut : best_cut<float>(word, trie_, scores_, {unknown_piece_, unknown_score_})) {
    if (cut.piece != unknown_piece_) {
      pieces.push_back({entries_[cut.piece], cut.begin, cut.end});
      continue;
    }
    const std::string text = to_utf8(word.subspan(cut.begin, cut.end - cut.begin));
    if (!file_.byte_fallback) {
      pieces.push_back({entry_of(text), cut.begin, cut.end});
      continue;
    }
    for (const char byte : text) {
      const std::string token = fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte));
      pieces.push_back({entry_of(token), cut.begin, cut.end});
    }
  }
}

}  // namespace qkv::text
