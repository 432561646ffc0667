// Checks of explain().
#pragma once

#include <utility>

#include "core/refuse.h"

namespace qkv::inline explaining {

// std::invalid_argument "explain: TEXT" unless it fits.
template <class... Arguments>
void require(bool fits, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  refuse_unless(fits, "explain", text, std::forward<Arguments>(arguments)...);
}

}  // namespace qkv::inline explaining
