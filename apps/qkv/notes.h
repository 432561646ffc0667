// Notes on standard error: what was written, and that work goes on. Commands have none with --quiet.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace qkv::app {

// No notes from now on.
void be_quiet();
bool is_quiet();

// This line.
void note(std::string_view text);

// "wrote steps.html (1.4 MB); open it in a browser", of a file or of a folder. `how` to look at it; empty: by the
// ending of the path, or in no way.
void note_written(const std::string& path, std::string_view how = {});

// On a terminal, once it takes more than a second: "explaining, 12 s" until it ends, and "explaining, 40 %, 12 s" where
// the work tells its share to this thread.
class WorkingLine {
 public:
  explicit WorkingLine(std::string doing);
  ~WorkingLine();
  WorkingLine(const WorkingLine&) = delete;

 private:
  struct Line;
  std::unique_ptr<Line> line_;
};

}  // namespace qkv::app
