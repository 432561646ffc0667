// Writes what a command explains as a report.
#include "commands/report_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "notes.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv::app {

void ReportFile::check(std::vector<NamedFile> inputs, const NamedFile& other_output) const {
  inputs.push_back({"--compare", beside});
  if (other_output.given()) {
    check_output(inputs, other_output);
    inputs.push_back(other_output);
  }
  if (wanted()) check_output(inputs, {"--html", path});
}

void ReportFile::read_beside(const char* kind) {
  if (beside.empty()) return;
  RecordedRun run = read_recorded_run(read_file(beside, kLargestReport), beside);
  if (run.kind != kind) {
    throw FormatError(
        fmt::format("{}: holds a run of kind \"{}\", but this one has kind \"{}\"", beside, run.kind, kind));
  }
  report.add_beside(std::move(run));
}

void ReportFile::write(const std::string& title, const std::string& command) const {
  if (!wanted()) return;
  write_file(path, report.html(title, command, start));
  note_written(path);
}

Option html_option(ReportFile& report, const Rules& rules) {
  return {"--html", output_file(report.path, {".html", ".htm"}),
          "Also write a report: one page that shows every number, in any browser, offline", rules};
}

Option beside_option(ReportFile& report) {
  return {"--compare", file(report.beside),
          "With --html: compare with this run; a file of explain --json with other options or texts (for a model's "
          "heads, with --weights)",
          needs("--html")};
}

std::vector<NamedFile> model_files(const std::string& folder) {
  std::vector<NamedFile> files;
  std::error_code error;
  if (std::filesystem::is_regular_file(folder, error)) return {{"--model", folder}};
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    files.push_back({"--model", entry.path().string()});
  }
  return files;
}

}  // namespace qkv::app
