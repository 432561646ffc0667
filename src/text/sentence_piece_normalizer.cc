// Replaces text and spaces as sentencepiece does.
#include "text/sentence_piece_normalizer.h"

#include "core/stop.h"

namespace qkv::text {
namespace {

constexpr char32_t kVisibleSpace = 0x2581;

}  // namespace

SentencePieceNormalizer::SentencePieceNormalizer(const io::SentencePieceFile& file)
    : rules_(file.charsmap), single_spaces_(file.single_spaces) {
  for (const auto& piece : file.pieces) {
    if (piece.type == io::SentencePieceFile::Type::user_defined) kept_.insert(to_code_points(piece.text), 0);
  }
}

std::size_t SentencePieceNormalizer::append_first(CharacterSpan text, Characters& result) const {
  if (const Trie::Match kept = kept_.longest(text); kept.length > 0) {
    result.insert(result.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(kept.length));
    return kept.length;
  }
  const Charsmap::Match match = rules_.longest(text);
  if (match.length == 0) {
    result.push_back(text.front());
    return 1;
  }
  append_replacement(result, text.first(match.length), match.replacement);
  return match.length;
}

Characters SentencePieceNormalizer::normalize(CharacterSpan text) const {
  Characters result, part;
  result.reserve(text.size() + 1);
  if (!text.empty()) result.push_back({kVisibleSpace, text.front().begin, text.front().begin});
  bool after_space = single_spaces_;  // a part that follows loses the spaces that it begins with
  StopTurns turns;
  while (!text.empty()) {
    turns.next();
    part.clear();
    text = text.subspan(append_first(text, part));
    for (const Character& c : part) {
      if (c.code == ' ' && after_space) continue;
      after_space = false;
      result.push_back({c.code == ' ' ? kVisibleSpace : c.code, c.begin, c.end});
    }
    if (!part.empty()) after_space = single_spaces_ && part.back().code == ' ';
  }
  while (single_spaces_ && !result.empty() && result.back().code == kVisibleSpace) result.pop_back();
  return result;
}

}  // namespace qkv::text
