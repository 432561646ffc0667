// The part of a head's trace that is derived from what the kernel computed.
#pragma once

#include <cstdint>
#include <span>

#include "qkv/explain/explain_model.h"

namespace qkv::inline explaining {

// `special` as Encoding has it, for the keys.
void complete(HeadTrace& trace, std::span<const std::uint8_t> special);

}  // namespace qkv::inline explaining
