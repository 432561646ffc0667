// Heads of a model, a line each.
#pragma once

#include <span>
#include <vector>

#include "qkv/explain/explain_model.h"

namespace qkv {

std::vector<Line> heads_table(std::span<const HeadSurvey::Entry> heads);

}  // namespace qkv
