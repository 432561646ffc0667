// Options that name heads and tokens of a model: "0.1", or of a model with several attentions "encoder-decoder.0.1".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "command_line.h"
#include "commands/report_file.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/explainable.h"

namespace qkv::app {

// The attention, and what follows its name; of a model with one attention its name is not said. UsageError of `option`.
std::pair<std::size_t, std::string> place_of(const char* option, const std::string& text,
                                             const std::vector<AttentionSite>& sites);

// LAYER.HEAD. UsageError of `option` for what is no head of the model.
HeadIndex head_at(const char* option, const std::string& text, const Attentions& attentions);

// --keep and --keep-rows: of which heads of a long input a report keeps exact weights.
struct KeptHeads {
  std::vector<std::string> heads{};
  std::vector<std::int64_t> rows{};

  bool given() const { return !heads.empty(); }
  // UsageError unless what they are kept for is wanted.
  void check(const ReportFile& report, bool json) const;
  // For a model; UsageError for unknown heads and rows.
  HeadMapsOptions of(const Attentions& attentions) const;
};

// `form`: how a head is named. `rules`: of --keep.
std::vector<Option> kept_head_options(KeptHeads& kept, const char* form, const Rules& rules);

// Surveys a model's heads, and adds the survey to the report, if requested, with maps of long inputs; data for the
// report only is not returned, unless heads are kept.
HeadSurvey reported_survey(const Explainable& input, const SurveyOptions& options, const KeptHeads& kept,
                           ReportFile& report, const std::string& fingerprint);

// --without-head and --without-key: what a model's run does without.
struct LeftOutOptions {
  std::vector<std::string> heads{}, keys{};

  bool given() const { return !heads.empty() || !keys.empty(); }
  // UsageError for what is no head of the model and no token of the input.
  LeftOut of(const Attentions& attentions) const;
  // As they stand in a command: " --without-head encoder.0.1".
  std::string words() const;
};

// `rules`: of both beside that they may be repeated.
std::vector<Option> left_out_options(LeftOutOptions& options, const Rules& rules = {});

// The result of `make` for the heads and keys that the options leave out.
template <class Make>
auto without_left_out(const LeftOutOptions& options, const Make& make) {
  auto whole = make(LeftOut());
  return options.given() ? make(options.of(whole.attentions())) : std::move(whole);
}

}  // namespace qkv::app
