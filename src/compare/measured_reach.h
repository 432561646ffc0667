// How far back a model sees, found by changing what it reads.
#pragma once

#include <cstdint>

#include "compare/sequence_model.h"

namespace qkv::comparison {

// The most tokens before the last one of a random sequence that a change of a token lies from it and yet changes a bit
// of its logits.
std::int64_t measured_reach(const SequenceModel& model, std::int64_t length, std::uint64_t seed);

}  // namespace qkv::comparison
