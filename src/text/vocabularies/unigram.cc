// Finds the split of a word into pieces whose scores have the largest sum (Viterbi's algorithm): of
// vocabularies, and with the numbers of sentencepiece, whose sums are float32.
#include "text/vocabularies/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "core/stop.h"
#include "text/stages/trie.h"

namespace qkv::text {
namespace {

// Characters begin <= i < end of the word.
struct CutPiece {
  std::uint32_t piece;  // its number in the trie
  std::size_t begin;
  std::size_t end;
};

// The piece of a character outside the vocabulary; neighbouring ones are joined in the result.
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

constexpr float kUnknownPenalty = 10;  // below the lowest score, as sentencepiece has it

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

void Unigram::add_to(Sha256& digest) const {
  for (const double score : scores_) digest.add_number(score);
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
    // User-defined pieces are always chosen: such a score beats any other way to cut it.
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
