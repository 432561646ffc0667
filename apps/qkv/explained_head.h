// --explain of the commands whose models have a head: what each of its outputs came from.
#pragma once

#include <string>
#include <vector>

#include "command_line.h"
#include "commands/report_file.h"
#include "inputs/head_options.h"
#include "qkv/explain/judged_text.h"

namespace qkv::app {

struct ExplainedHead {
  bool wanted = false;
  ReportFile report{};
  KeptHeads keep{};  // by the report
  LeftOutOptions left_out{};
  std::string fingerprint{};  // of the model; empty: nobody asks

  // Refuses a report in place of a file of the model.
  void check(const std::string& folder) const { report.check(model_files(folder)); }
  // Each output as text, or as a line of JSON; the report, if one is wanted, has them then.
  void print(const TextPipeline& model, const JudgedText& whole, bool json);
};

// --explain, which says `help`, --html, --keep, --keep-rows, --without-head and --without-key. `rules`: of --explain.
std::vector<Option> explain_options(ExplainedHead& head, const char* help, const Rules& rules = {});

}  // namespace qkv::app
