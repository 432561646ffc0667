// How much of the gradient of a loss reaches a token so far back.
#pragma once

#include <cstdint>
#include <map>

#include "compare/sequence_model.h"

namespace qkv::comparison {

// By distance (1, 2, 4 ... 128), for a model of recall: the norm of the gradient of the loss at the last token with
// respect to the embedding of the symbol that it asks for, the root of the mean square over examples of one length. The
// loss is that of a wrong answer, as that of a right one has no gradient once it is learnt. In f64, since what is left
// of it can be far below the smallest f32.
std::map<std::int64_t, double> input_gradients(const SequenceModel& model, std::uint64_t seed);

}  // namespace qkv::comparison
