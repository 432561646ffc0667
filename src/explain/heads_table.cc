// Formats the summaries of heads as a table.
#include "explain/heads_table.h"

#include <fmt/format.h>

#include "explain/explanation_context.h"
#include "explain/numbers.h"

namespace qkv {
namespace {

constexpr double kRemarkable = 0.5;  // a share of this size is coloured

Line summary_line(const HeadSurvey::Entry& entry) {
  const HeadSummary& summary = entry.summary;
  Line line = {
      {fmt::format("{:>5} {:>4}", entry.index.layer, entry.index.head), Role::none},
      {fmt::format(" {:>8} {:>9}", fixed_text(summary.entropy, 3), fixed_text(summary.distance, 2)), Role::score}};
  for (const double share : {summary.first, summary.previous, summary.next, summary.itself, summary.separators}) {
    line.push_back({fmt::format(" {:>10}", fixed_text(share, 3)), share >= kRemarkable ? Role::weight : Role::none});
  }
  return line;
}

}  // namespace

std::vector<Line> heads_table(std::span<const HeadSurvey::Entry> heads) {
  std::vector<Line> lines = {
      plain(fmt::format("{:>5} {:>4} {:>8} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10}", "layer", "head", "entropy",
                        "distance", "first", "previous", "next", "itself", "separators"))};
  for (const HeadSurvey::Entry& entry : heads) lines.push_back(summary_line(entry));
  return lines;
}

}  // namespace qkv
