// Turns logits into classes, the most probable first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "qkv/pipelines/class_probability.h"

namespace qkv::inline pipelines {

double sigmoid(double x);

std::vector<double> softmax(std::span<const float> logits);

// At most `top` classes, of equal ones the first, with `scores` of the logits: the softmax; of labels that exclude no
// other the sigmoid of each; of numbers that were learnt the logits themselves.
std::vector<ClassProbability> most_probable(std::span<const float> logits, const std::vector<std::string>& labels,
                                            std::int64_t top, ClassScores scores = ClassScores::softmax);

}  // namespace qkv::inline pipelines
