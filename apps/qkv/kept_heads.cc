// Reads which heads a report is to keep.
#include "kept_heads.h"

#include "head_places.h"

namespace qkv::app {
namespace {

// Separated by commas: the word after it may be the text of a command.
template <class Item>
Value one_word(std::vector<Item>& target, const char* type) {
  Value list = comma_list(target, type);
  list.takes_words = false;
  return list;
}

}  // namespace

void KeptHeads::check(const ReportFile& report, bool json) const {
  if (given() && !report.wanted() && !json) throw UsageError("--keep", "needs --html or --json");
}

HeadMapsOptions KeptHeads::of(const Attentions& attentions) const {
  HeadMapsOptions options{.keep_rows = rows};
  for (const std::string& text : heads) options.keep.push_back(head_at("--keep", text, attentions.sites));
  return options;
}

std::vector<Option> kept_head_options(KeptHeads& kept, const char* form, const Rules& rules) {
  return {{"--keep", one_word(kept.heads, form),
           "of more than 64 queries or keys, of which a report draws means over blocks: the heads, up to 4, of which "
           "each query's 32 strongest keys are kept",
           rules},
          {"--keep-rows", one_word(kept.rows, "N"),
           "of these heads: the queries, up to 16, of which all weights are kept", needs("--keep")}};
}

HeadSurvey reported_survey(const Explainable& input, const SurveyOptions& options, const KeptHeads& kept,
                           ReportFile& report) {
  SurveyOptions all = options;
  if (report.wanted() || kept.given()) all.maps = kept.of(input.attentions());
  HeadSurvey survey = survey_heads(input, all);
  if (report.wanted()) report.report.add(survey);
  if (kept.given()) return survey;
  for (HeadSurvey::Entry& entry : survey.heads) {
    entry.map.reset();
    if (!options.keep_weights) entry.weights = {};
  }
  return survey;
}

}  // namespace qkv::app
