// Lines of standard input, as they arrive.
#pragma once

#include <string>
#include <vector>

namespace qkv::app {

// What has arrived, up to 1,024 lines, without their ends: whoever writes line by line gets answers line by line. False
// at the end of input; IoError if it cannot be read.
bool read_lines(std::vector<std::string>& lines);

}  // namespace qkv::app
