// Numbers and messages as people read them.
#pragma once

#include <string>

namespace qkv::app {

// Messages carry what users typed and files hold: still one line, and nothing that a terminal would obey.
std::string one_line(std::string text);

// "1.4 MB", in powers of 1000.
std::string bytes_text(double bytes);
// "40 ms", of one or two digits.
std::string seconds_text(double seconds);
// "92 %", of a share from 0 to 1; "under 1 %" of one above 0 that would be 0.
std::string percent_text(double share);

}  // namespace qkv::app
