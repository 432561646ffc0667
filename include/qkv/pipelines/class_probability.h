/// \file
/// What a classifier of pictures or of texts says.
#pragma once

#include <string>

namespace qkv {

/// What becomes of the logits of classes.
enum class ClassScores { softmax, sigmoid, logits };

/// A class and how probable it is.
struct ClassProbability {
  std::string label;
  /// Softmax of the logits, of a text with several labels at once the sigmoid of each; of a regression the number.
  double probability = 0;
};

}  // namespace qkv
