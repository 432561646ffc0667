/// \file
/// Sequences side by side, and a label for each of their tokens: what a language model is trained on.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/tensor.h"

namespace qkv {

struct TokenLabels {
  std::vector<std::int32_t> ids;
  Tensor offsets;                    ///< as in sequences.h
  std::vector<std::int32_t> labels;  ///< one for each id; below 0: none
};

}  // namespace qkv
