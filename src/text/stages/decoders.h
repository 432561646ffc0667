// The detokenizers ("decoders"): tokens to text.
#pragma once

#include <string>
#include <vector>

#include "text/stages/stages.h"

namespace qkv::text {

// Characters of byte_alphabet.h to bytes, all tokens to one. Bytes that are no UTF-8 become U+FFFD.
void decode_byte_level(std::vector<std::string>& tokens);

// The visible space becomes a space; `first_goes`: in the first token it goes.
Decoder metaspace_decoder(std::string replacement, bool first_goes);

// The mark at the end of a word becomes a space, at the end of the text nothing.
Decoder suffix_decoder(std::string suffix);

// Neighbouring tokens <0x00> to <0xFF> become the text of their bytes; U+FFFD each, if that is no UTF-8.
void decode_byte_fallback(std::vector<std::string>& tokens);

// `from` is not empty.
Decoder replace_decoder(std::string from, std::string to);

// All tokens become one.
void fuse(std::vector<std::string>& tokens);

// Up to `start` and `stop` of one character go from the ends of each token.
Decoder strip_decoder(std::string character, std::size_t start, std::size_t stop);

// One after the other.
Decoder in_turn(std::vector<Decoder> steps);

// Tokens to text: pieces that continue a word are joined to it, all others follow a space. `cleanup`: no space before
// punctuation and English contractions.
Decoder word_piece_decoder(std::string prefix, bool cleanup);

}  // namespace qkv::text
