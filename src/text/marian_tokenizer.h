// The tokenizer of a Marian folder: a SentencePiece model beside a vocabulary of both sides.
#pragma once

#include <string>

#include "text/tokenizer_parts.h"

namespace qkv::text {

// What Tokenizer::load_marian() says.
Tokenizer::Parts read_marian_tokenizer(const std::string& pieces, const std::string& vocabulary, std::int64_t vocab);
// The same from the contents of the files; the names are those in messages.
struct NamedBytes {
  std::string_view bytes;
  std::string name;
};
Tokenizer::Parts parse_marian_tokenizer(const NamedBytes& pieces, const NamedBytes& vocabulary, std::int64_t vocab);

// FormatError if the folder's tokenizer_config.json asks for ids that are not those of this tokenizer. `is_separate`:
// whether the target has a vocabulary of its own.
void check_marian_settings(const std::string& path, const Tokenizer& tokenizer, bool is_separate);

}  // namespace qkv::text
