// Cuts a word into the longest pieces of the vocabulary.
#include "text/vocabularies/wordpiece.h"

#include <fmt/format.h>

#include <stdexcept>

#include "core/stop.h"
#include "io/files/text.h"

namespace qkv::text {

WordPiece::WordPiece(Vocabulary vocabulary, const WordPieceOptions& options)
    : vocabulary_(std::move(vocabulary)),
      continuing_prefix_(options.continuing_prefix),
      unknown_(vocabulary_.find(options.unknown_token)),
      max_word_characters_(options.max_word_characters) {
  if (unknown_ == nullptr) {
    throw std::invalid_argument(
        fmt::format("unknown token {} is not in the vocabulary", io::quote(options.unknown_token)));
  }
}

void WordPiece::build_index() {
  StopTurns turns;
  for (std::uint32_t i = 0; i < vocabulary_.entries().size(); ++i) {
    turns.next();
    trie_.insert(to_code_points(vocabulary_.entries()[i].token), i);
  }
  continuing_ = trie_.find(to_code_points(continuing_prefix_));
}

void WordPiece::tokenize(CharacterSpan word, std::vector<Piece>& pieces) const {
  const std::size_t before = pieces.size();
  bool known = word.size() <= max_word_characters_;
  for (std::size_t at = 0; known && at < word.size();) {
    const Trie::Node from = at == 0 ? Trie::kRoot : continuing_;
    const Trie::Match match = from == Trie::kNone ? Trie::Match{} : trie_.longest(word.subspan(at), from);
    known = match.length > 0;
    if (known) pieces.push_back({&vocabulary_.entries()[match.value], at, at + match.length});
    at += match.length;
  }
  if (known) return;
  pieces.resize(before);
  pieces.push_back({unknown_, 0, word.size()});
}

}  // namespace qkv::text
