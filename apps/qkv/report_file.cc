// Writes what a command explains as a report.
#include "report_file.h"

#include <filesystem>

#include "qkv/files.h"

namespace qkv::app {

void ReportFile::check(std::vector<NamedFile> inputs, const NamedFile& other_output) const {
  if (other_output.given()) {
    check_output(inputs, other_output);
    inputs.push_back(other_output);
  }
  if (wanted()) check_output(inputs, {"--html", path});
}

void ReportFile::write(const std::string& title, const std::string& command) const {
  if (wanted()) write_file(path, report.html(title, command));
}

Option html_option(ReportFile& report, const Rules& rules) {
  return {"--html", file(report.path),
          "write a report into this file, too: a page that shows every number in any browser, without a network",
          rules};
}

std::vector<NamedFile> model_files(const std::string& folder) {
  std::vector<NamedFile> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    files.push_back({"--model", entry.path().string()});
  }
  return files;
}

}  // namespace qkv::app
