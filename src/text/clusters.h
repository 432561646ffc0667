// Extended grapheme clusters: what a reader takes for one character (Unicode Standard Annex 29), with the properties of
// Unicode 17.0, as the `tokenizers` library has them, but without rule GB9c for conjuncts of Indic consonants.
#pragma once

#include <cstddef>

#include "text/characters.h"

namespace qkv::text {

// How many characters of a text that is not empty its first cluster has.
std::size_t first_cluster(CharacterSpan text);

}  // namespace qkv::text
