/// \file
/// Sequences side by side, and what a model is to say at each of their tokens: what it is trained on.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/tensor.h"

namespace qkv {

struct TokenTargets {
  std::vector<std::int32_t> ids;
  Tensor offsets;                     ///< as in sequences.h
  std::vector<std::int32_t> targets;  ///< one for each id; below 0: none
};

}  // namespace qkv
