// Splits a text into the words that the model cuts into tokens.
#pragma once

#include <functional>
#include <string_view>

#include "text/tokenizer_parts.h"

namespace qkv::text {

// Calls visit(token, characters) for the words of a text, whose token is nullptr, and for the added tokens between
// them, in order, until it returns false.
using WordVisitor = std::function<bool(const AddedToken* token, CharacterSpan characters)>;
void for_each_word(const Tokenizer::Parts& parts, std::string_view utf8, const WordVisitor& visit);

}  // namespace qkv::text
