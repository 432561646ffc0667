// What explain() refuses.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace qkv {

// std::invalid_argument "explain: TEXT" unless it fits.
template <class... Arguments>
void require(bool fits, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  if (!fits) throw std::invalid_argument("explain: " + fmt::format(text, std::forward<Arguments>(arguments)...));
}

}  // namespace qkv
