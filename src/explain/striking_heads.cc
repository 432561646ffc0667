// Ranks the heads of a survey by how clearly they do one thing.
#include "explain/striking_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>

#include "core/mathematics.h"
#include "explain/numbers.h"

namespace qkv::inline explaining {
namespace {

constexpr std::size_t kMostStriking = 5;

// What a head does, and how much of it: its share, or how far its entropy is below the largest.
struct Striking {
  const HeadSurvey::Entry* head;
  double strength;
  std::string text;
};

Striking striking_of(const HeadSurvey& survey, const HeadSurvey::Entry& head) {
  const HeadSummary& summary = head.summary;
  const auto share = [&](double value, const char* where) {
    return Striking{&head, value, fmt::format("{} of its weight goes to {}", fixed_text(value, 3), where)};
  };
  switch (head.pattern) {
    case HeadPattern::previous:
      return share(summary.previous, "the token before");
    case HeadPattern::next:
      return share(summary.next, "the token after");
    case HeadPattern::itself:
      return share(summary.itself, "the token itself");
    case HeadPattern::first:
      return share(summary.first, "the first token");
    case HeadPattern::separators:
      return share(summary.separators, "special tokens");
    case HeadPattern::alignment: {
      const double largest = largest_entropy(survey, survey.attentions.sites[head.index.site]);
      return {&head, 1 - summary.entropy / largest,
              fmt::format("each token written attends to few source tokens: entropy {} of at most {}",
                          fixed_text(summary.entropy, 3), fixed_text(largest, 3))};
    }
    case HeadPattern::spread:
    case HeadPattern::none:
      break;
  }
  return {&head, 0, ""};
}

}  // namespace

double largest_entropy(const HeadSurvey& survey, const AttentionSite& site) {
  return log(static_cast<double>(survey.attentions.sequences[site.keys].tokens.size()));
}

std::vector<Section> striking_heads(const HeadSurvey& survey) {
  std::vector<Striking> all;
  for (const HeadSurvey::Entry& head : survey.heads) {
    if (Striking one = striking_of(survey, head); !one.text.empty()) all.push_back(std::move(one));
  }
  if (all.empty()) return {};
  std::ranges::stable_sort(all, std::ranges::greater(), &Striking::strength);
  Block block;
  for (const Striking& one : std::span(all).first(std::min(all.size(), kMostStriking))) {
    const AttentionSite& site = survey.attentions.sites[one.head->index.site];
    block.lines.push_back(
        {{site.title.empty() ? "" : site.title + ", ", Role::none},
         {fmt::format("layer {}, head {}: ", one.head->index.layer, one.head->index.head), Role::none},
         {name_of(one.head->pattern), Role::weight},
         {"; " + one.text, Role::none}});
  }
  return {{0, "The most striking heads", {block}}};
}

}  // namespace qkv::inline explaining
