// Text in lines of a width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace qkv {

// The lines of a text, each no longer than `width` bytes if its words allow it. A line that fits stays as it is; spaces
// before one that does not stand before what is wrapped of it, too.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace qkv
