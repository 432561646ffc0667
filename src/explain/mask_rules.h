// Which rule of a mask hides which key.
#pragma once

#include <optional>

#include "qkv/explain/explain.h"

namespace qkv::inline explaining {

// Of n inputs; nothing if all keys are seen.
std::optional<ExplainedMask> explained_mask(const ExplainInput& input, std::int64_t n);

}  // namespace qkv::inline explaining
