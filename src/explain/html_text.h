// Text in HTML: nothing in it is markup, whatever it holds.
#pragma once

#include <string>
#include <string_view>

namespace qkv::inline explaining {

// Bytes that are not UTF-8, and controls, become U+FFFD.
std::string html_text(std::string_view text);

}  // namespace qkv::inline explaining
