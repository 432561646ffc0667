// Lines of standard input, as they arrive.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace qkv::app {

// Reads the bytes of standard input itself, because a wait inside of the standard library cannot be interrupted.
// IoError if it cannot be read; Stopped once the user has asked for an end.
class InputLines {
 public:
  // The next line, without its end. False at the end of input.
  bool next(std::string& line);

  // Whether next() would have to wait for input.
  bool must_wait() const { return !ended_ && bytes_.find('\n', begin_) == std::string::npos; }

  // What has arrived, up to 1,024 lines: whoever writes line by line gets answers line by line. False at the end of
  // input.
  bool next(std::vector<std::string>& lines);

 private:
  void fetch();

  std::string bytes_;      // that have arrived
  std::size_t begin_ = 0;  // of the next line
  bool ended_ = false;
};

}  // namespace qkv::app
