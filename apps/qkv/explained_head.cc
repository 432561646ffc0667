// Measures the outputs of a head, and prints them.
#include "explained_head.h"

#include <fmt/format.h>

#include <memory>

#include "notes.h"
#include "qkv/explain/token_measures.h"
#include "qkv/pipelines/fingerprint.h"
#include "signals.h"
#include "surroundings.h"

namespace qkv::app {

void ExplainedHead::print(const TextPipeline& model, const JudgedText& whole, bool json) {
  const JudgedText text = left_out.given() ? whole.without(left_out.of(whole.attentions())) : whole;
  const Attentions& all = text.attentions();
  const auto outputs = std::ssize(all.sequences[measured_sequence(all)].tokens);
  if (fingerprint.empty() && (json || report.wanted())) fingerprint = qkv::fingerprint(model, {.stop = interruption()});
  if (report.wanted()) {
    reported_survey(text, {}, keep, report, fingerprint);
    report.start = "view=token&of=1";  // behind the heads
  }
  for (std::int64_t i = 0; i < outputs; ++i) {
    auto line = std::make_unique<WorkingLine>("explaining");
    TokenMeasures measures = measure_token(text, i);
    line.reset();
    measures.fingerprint = fingerprint;
    if (report.wanted()) report.report.add(measures);
    fmt::print("{}", json ? to_json(measures) + "\n" : words_to_text(measures, text_style()));
  }
}

std::vector<Option> explain_options(ExplainedHead& head, const char* help, const Rules& rules) {
  std::vector<Option> all = {{"--explain", flag(head.wanted), help, rules},
                             html_option(head.report, needs("--explain"))};
  for (const std::vector<Option>& more : {kept_head_options(head.keep, "LAYER.HEAD", needs("--html")),
                                          left_out_options(head.left_out, needs("--explain"))}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace qkv::app
