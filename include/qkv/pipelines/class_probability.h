/// \file
/// Results of a classifier of pictures or texts.
#pragma once

#include <string>

namespace qkv {

/// How logits of classes become results.
enum class ClassScores { softmax, sigmoid, logits };

/// A class and how probable it is.
struct ClassProbability {
  std::string label;
  /// Softmax of the logits; with several labels at once the sigmoid of each; for regression the number.
  double probability = 0;
};

}  // namespace qkv
