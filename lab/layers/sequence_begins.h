// Where the sequences of a batch begin in its rows.
#pragma once

#include <string_view>
#include <vector>

#include "qkv/layers/sequences.h"

namespace qkv::inline layers {

// The offsets of ragged rows. std::invalid_argument, beginning with `layer`, unless they begin with 0 and never fall.
std::vector<std::int64_t> offset_begins(std::string_view layer, const TensorView& offsets);

// One for each sequence, and the end of the last. std::invalid_argument, beginning with `layer`, unless x is
// [batch, length, size], [length, size] or rows [tokens, size] with their offsets.
std::vector<std::int64_t> sequence_begins(std::string_view layer, const Sequences& x, std::int64_t size);

}  // namespace qkv::inline layers
