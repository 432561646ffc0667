// --keep and --keep-rows: of which heads of a long input a report keeps exact weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command_line.h"
#include "qkv/explain/explain_model.h"
#include "report_file.h"

namespace qkv::app {

struct KeptHeads {
  std::vector<std::string> heads{};
  std::vector<std::int64_t> rows{};

  bool given() const { return !heads.empty(); }
  // UsageError unless what they are kept for is wanted.
  void check(const ReportFile& report, bool json) const;
  // Of a model. UsageError for what is no head.
  HeadMapsOptions of(const Attentions& attentions) const;
};

// `form`: how a head is named. `rules`: of --keep.
std::vector<Option> kept_head_options(KeptHeads& kept, const char* form, const Rules& rules);

// Of a model's heads. The report, if one is wanted, has it then, with maps of long inputs; what it holds for that alone
// is left out of what is returned, unless heads are kept.
HeadSurvey reported_survey(const Explainable& input, const SurveyOptions& options, const KeptHeads& kept,
                           ReportFile& report);

}  // namespace qkv::app
