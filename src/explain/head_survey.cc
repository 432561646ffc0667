// Summarizes all heads of a model in one run.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "core/mathematics.h"
#include "explain/cost.h"
#include "explain/observe.h"
#include "explain/require.h"
#include "explain/sublayers.h"
#include "explain/survey_maps.h"
#include "explain/value_norms.h"
#include "explain/word_alignment.h"
#include "qkv/explain/explain_model.h"

namespace qkv {

HeadSummary summarize_head(const TensorView& weights, std::span<const std::uint8_t> special) {
  require(weights.rank() == 2 && weights.size(0) > 0 && weights.size(1) > 0 &&
              static_cast<std::int64_t>(special.size()) == weights.size(1),
          "weights must be [queries, keys] with a mark per key, got {} and {} marks", to_string(weights.shape()),
          special.size());
  const Tensor exact = convert(weights, Dtype::f64);
  const double* weight = exact.data<double>();
  const std::int64_t count = weights.size(0), keys = weights.size(1);
  HeadSummary sum;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = 0; j < keys; ++j, ++weight) {
      if (*weight > 0) sum.entropy -= *weight * log(*weight);
      sum.distance += *weight * static_cast<double>(std::abs(i - j));
      if (j == 0) sum.first += *weight;
      if (j == i - 1) sum.previous += *weight;
      if (j == i + 1) sum.next += *weight;
      if (j == i) sum.itself += *weight;
      if (j > 0 && special[static_cast<std::size_t>(j)] != 0) sum.separators += *weight;
    }
  }
  for (double* part :
       {&sum.entropy, &sum.distance, &sum.first, &sum.previous, &sum.next, &sum.itself, &sum.separators}) {
    *part /= static_cast<double>(count);
  }
  return sum;
}

const char* name_of(HeadPattern pattern) {
  constexpr const char* kNames[] = {"none", "previous", "next", "itself", "first", "separators", "alignment", "spread"};
  return kNames[static_cast<std::size_t>(pattern)];
}

HeadPattern pattern_of(const HeadSummary& summary, double largest_entropy, bool between_two_sequences) {
  constexpr double kShare = 0.5, kSharp = 0.5, kFlat = 0.9;
  const std::pair<HeadPattern, double> shares[] = {{HeadPattern::previous, summary.previous},
                                                   {HeadPattern::next, summary.next},
                                                   {HeadPattern::itself, summary.itself},
                                                   {HeadPattern::first, summary.first},
                                                   {HeadPattern::separators, summary.separators}};
  for (const auto& [pattern, share] : std::span(shares).subspan(between_two_sequences ? 3 : 0)) {
    if (share >= kShare) return pattern;
  }
  if (between_two_sequences && summary.entropy <= kSharp * largest_entropy) return HeadPattern::alignment;
  return largest_entropy > 0 && summary.entropy >= kFlat * largest_entropy ? HeadPattern::spread : HeadPattern::none;
}

namespace {

void set_value_norm(HeadSurvey::Entry& entry, const Tensor& weights, Tensor lengths) {
  const Tensor norms = value_norms(weights, lengths);
  double sum = 0;
  for (std::int64_t i = 0; i < norms.element_count(); ++i) sum += norms.data<double>()[i];
  entry.value_norm = sum / static_cast<double>(norms.size(0));
  entry.value_lengths = std::move(lengths);
}

}  // namespace

HeadSurvey survey_heads(const Explainable& input, const SurveyOptions& options) {
  HeadSurvey survey{.attentions = input.attentions()};
  survey.costs.resize(survey.attentions.sites.size());
  const auto& [sequences, sites, title, alignment, left_out] = survey.attentions;
  std::optional<SurveyMaps> maps;
  if (options.maps) {
    maps.emplace(survey.attentions, *options.maps);
    survey.kept_rows = options.maps->keep_rows;
  }
  std::optional<WordAlignment> words;
  if (alignment) words.emplace(*alignment);
  const auto add = [&](std::size_t s, std::int64_t layer, const SeenLayer& seen) {
    const AttentionSite& site = sites[s];
    for (std::int64_t head = 0; head < site.heads; ++head) {
      Tensor weights = part_of(seen.weights, head);
      const HeadSummary summary = summarize_head(weights, sequences[site.keys].special);
      const double largest = log(static_cast<double>(weights.size(-1)));
      HeadSurvey::Entry& entry = survey.heads.emplace_back();
      entry.index = {layer, head, s};
      entry.summary = summary;
      const bool is_left_out = std::ranges::find(left_out.heads, entry.index) != left_out.heads.end();
      if (!is_left_out) entry.pattern = pattern_of(summary, largest, site.queries != site.keys);
      set_value_norm(entry, weights, value_lengths(seen.value, seen.out_weight, site.heads, head));
      const bool is_long = maps && maps->is_long(s);
      if (is_long) entry.map = maps->map(entry.index, weights);
      if (options.keep_weights || (maps && !is_long)) entry.weights = std::move(weights);
    }
    if (words && alignment->site == s) words->add(seen.weights);
    if (layer == 0) {
      survey.costs[s] = plan_of_layer(survey.attentions, {.site = s}, seen.head_dim, seen.value.size(-1));
    }
  };
  observe_layers(input, add, [&](std::string_view name, const TensorView& value) {
    add_sublayer(survey.sublayers, sequences, name, value);
  });
  if (words) {
    survey.word_weights = words->weights();
    survey.word_alignment = align_words(input);
  }
  std::ranges::sort(survey.heads, {}, [](const HeadSurvey::Entry& entry) {
    return std::tuple(entry.index.site, entry.index.layer, entry.index.head);
  });
  return survey;
}

}  // namespace qkv
