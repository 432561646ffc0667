// The heads of a survey that stand out, in words.
#pragma once

#include <vector>

#include "qkv/explain/explain_model.h"

namespace qkv::inline explaining {

// The logarithm of the number of keys.
double largest_entropy(const HeadSurvey& survey, const AttentionSite& site);

// One section with the most striking heads by name; none if no head passes a threshold.
std::vector<Section> striking_heads(const HeadSurvey& survey);

}  // namespace qkv::inline explaining
