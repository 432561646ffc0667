// Heads and tokens of a model as options name them: "0.1", or of a model with several attentions "encoder-decoder.0.1".
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "qkv/explain/explainable.h"

namespace qkv::app {

// The attention, and what follows its name; of a model with one attention its name is not said. UsageError of `option`.
std::pair<std::size_t, std::string> place_of(const char* option, const std::string& text,
                                             const std::vector<AttentionSite>& sites);

// LAYER.HEAD. UsageError of `option` for what is no head.
HeadIndex head_at(const char* option, const std::string& text, const std::vector<AttentionSite>& sites);

}  // namespace qkv::app
