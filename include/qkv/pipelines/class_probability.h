/// \file
/// What a classifier of pictures or of texts says.
#pragma once

#include <string>

namespace qkv {

/// A class and how probable it is.
struct ClassProbability {
  std::string label;
  double probability = 0;  ///< softmax of the logits, or of a text with several labels at once the sigmoid of each
};

}  // namespace qkv
