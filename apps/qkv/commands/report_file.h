// --html FILE: what a command explains, as a report (qkv/explain/report.h).
#pragma once

#include <string>
#include <vector>

#include "command_line.h"
#include "inputs/options.h"
#include "qkv/explain/report.h"

namespace qkv::app {

struct ReportFile {
  std::string path{};
  std::string beside{};  // a file of explain --json; empty: none
  Report report{};
  std::string start{};  // the view that the page shows first; empty: the first one

  bool wanted() const { return !path.empty(); }
  // Refuses a file that is one of these inputs or cannot be written, before any work; and another output beside it.
  void check(std::vector<NamedFile> inputs, const NamedFile& other_output = {""}) const;
  // Reads the run to compare with. FormatError if it is not of this kind.
  void read_beside(const char* kind);
  void write(const std::string& title, const std::string& command) const;
};

Option html_option(ReportFile& file, const Rules& rules = {});
Option beside_option(ReportFile& file);

// The files of a model's folder, of which none may be overwritten.
std::vector<NamedFile> model_files(const std::string& folder);

}  // namespace qkv::app
