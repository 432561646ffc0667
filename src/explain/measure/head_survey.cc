// Summarizes all heads of a model in one run, and keeps their weights or maps of them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/mathematics.h"
#include "explain/measure/pyramid.h"
#include "explain/measure/weight_measures.h"
#include "explain/measure/word_alignment.h"
#include "explain/observe/intermediates.h"
#include "explain/observe/left_out_masks.h"
#include "explain/observe/observe.h"
#include "explain/observe/require.h"
#include "qkv/explain/attention_maps.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/token_measures.h"

namespace qkv {

namespace {

// Induction and duplicate.
HeadSummary summarize_copies(const Tensor& weights, std::span<const std::int32_t> ids) {
  HeadSummary sum;
  std::int64_t repeated = 0;  // queries
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double* row = weights.data<double>() + i * ids.size();
    bool is_repeated = false;
    for (std::size_t j = 0; j < i; ++j) {
      if (ids[j] != ids[i]) continue;
      is_repeated = true;
      sum.duplicate += row[j];
      sum.induction += row[j + 1];
    }
    repeated += is_repeated ? 1 : 0;
  }
  for (double* part : {&sum.induction, &sum.duplicate})
    *part /= static_cast<double>(std::max<std::int64_t>(repeated, 1));
  return sum;
}

}  // namespace

HeadSummary summarize_head(const TensorView& weights, std::span<const std::uint8_t> special,
                           std::span<const std::int32_t> ids) {
  require(weights.rank() == 2 && weights.size(0) > 0 && weights.size(1) > 0 &&
              static_cast<std::int64_t>(special.size()) == weights.size(1),
          "weights must be [queries, keys] with a mark per key, got {} and {} marks", to_string(weights.shape()),
          special.size());
  const std::int64_t count = weights.size(0), keys = weights.size(1);
  require(ids.empty() || (count == keys && std::ssize(ids) == keys), "{} ids are of weights {}", ids.size(),
          to_string(weights.shape()));
  const Tensor exact = convert(weights, Dtype::f64);
  const double* weight = exact.data<double>();
  HeadSummary sum = ids.empty() ? HeadSummary() : summarize_copies(exact, ids);
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

inline namespace explaining {

HeadSummary summary_of(const TensorView& weights, const Attentions& attentions, std::size_t site) {
  const AttentionSite& own = attentions.sites[site];
  const AttentionSequence& keys = attentions.sequences[own.keys];
  if (!own.causal) return summarize_head(weights, keys.special);
  std::vector<std::int32_t> ids = keys.ids;
  if (ids.empty()) {  // tokens of one name are the same
    for (const std::string& token : keys.tokens) {
      const auto first = std::ranges::find(keys.tokens, token) - keys.tokens.begin();
      ids.push_back(static_cast<std::int32_t>(first));
    }
  }
  return summarize_head(weights, keys.special, ids);
}

}  // namespace explaining

const char* name_of(HeadPattern pattern) {
  constexpr const char* kNames[] = {"none",      "previous", "next",       "itself",    "induction",
                                    "duplicate", "first",    "separators", "alignment", "spread"};
  return kNames[static_cast<std::size_t>(pattern)];
}

HeadPattern pattern_of(const HeadSummary& summary, double largest_entropy, bool between_two_sequences) {
  constexpr double kShare = 0.5, kSharp = 0.5, kFlat = 0.9;
  const std::pair<HeadPattern, double> shares[] = {
      {HeadPattern::previous, summary.previous},    {HeadPattern::next, summary.next},
      {HeadPattern::itself, summary.itself},        {HeadPattern::induction, summary.induction},
      {HeadPattern::duplicate, summary.duplicate},  {HeadPattern::first, summary.first},
      {HeadPattern::separators, summary.separators}};
  for (const auto& [pattern, share] : std::span(shares).subspan(between_two_sequences ? 5 : 0)) {
    if (share >= kShare) return pattern;
  }
  if (between_two_sequences && summary.entropy <= kSharp * largest_entropy) return HeadPattern::alignment;
  return largest_entropy > 0 && summary.entropy >= kFlat * largest_entropy ? HeadPattern::spread : HeadPattern::none;
}

namespace {

// The weights that a survey keeps for a report: all for short inputs, maps for long ones.
class SurveyMaps {
 public:
  // std::invalid_argument if there is no such head or row, or if there is more than fits.
  SurveyMaps(const Attentions& attentions, const HeadMapsOptions& options);

  // Whether an attention has too many queries or keys for every weight to be kept.
  bool is_long(std::size_t site) const;

  // The map of the weights [queries, keys], f64, of a head of such an attention.
  HeadMap map(const HeadIndex& head, const Tensor& weights) const;

 private:
  const Attentions& attentions_;
  HeadMapsOptions options_;
  std::int64_t grid_ = 0;
};

// Bytes of a weight that is kept, in JSON and in its table, and of a value's length, in JSON.
constexpr std::size_t kPerWeight = 12 + 16, kPerLength = 20;

std::int64_t count_of(const Attentions& attentions, std::size_t sequence) {
  return std::ssize(attentions.sequences[sequence].tokens);
}

// Means over equal parts of the rows and of the columns.
Tensor means_of_blocks(const Tensor& weights, std::int64_t rows, std::int64_t columns) {
  const std::int64_t queries = weights.size(0), keys = weights.size(1);
  std::vector<double> sums(static_cast<std::size_t>(rows * columns));
  std::vector<float> means(sums.size()), counts(sums.size());
  const double* weight = weights.data<double>();
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t j = 0; j < keys; ++j) {
      const auto cell = static_cast<std::size_t>(i * rows / queries * columns + j * columns / keys);
      sums[cell] += *weight++;
      ++counts[cell];
    }
  }
  for (std::size_t cell = 0; cell < sums.size(); ++cell) means[cell] = static_cast<float>(sums[cell] / counts[cell]);
  return Tensor::of<float>({rows, columns}, means);
}

void keep_top(HeadMap& map, const Tensor& weights) {
  const std::int64_t queries = weights.size(0), top = std::min(weights.size(1), AttentionMaps::kTop);
  map.top_keys = Tensor::uninitialized({queries, top}, Dtype::i64);
  map.top_weights = Tensor::uninitialized({queries, top}, Dtype::f32);
  std::int64_t* key = map.top_keys.data<std::int64_t>();
  float* weight = map.top_weights.data<float>();
  for (std::int64_t i = 0; i < queries; ++i) {
    const std::vector<std::int64_t> strongest = keys_by_weight(weights, i);
    for (std::int64_t n = 0; n < top; ++n) {
      const std::int64_t j = strongest[static_cast<std::size_t>(n)];
      const double own = weights.view().at<double>({i, j});
      *key++ = own == 0 ? -1 : j;
      *weight++ = static_cast<float>(own);
    }
  }
}

void check_there(const Attentions& attentions, const HeadIndex& head, const std::vector<std::int64_t>& rows) {
  const AttentionSite& site = attentions.sites[head.site];
  const std::string name =
      fmt::format("{}{}.{}", attentions.sites.size() > 1 ? site.option() + "." : "", head.layer, head.head);
  require(head.layer >= 0 && head.layer < site.layers && head.head >= 0 && head.head < site.heads,
          "there is no head {} to keep; the layers are 0 to {}, the heads 0 to {}", name, site.layers - 1,
          site.heads - 1);
  const std::int64_t queries = count_of(attentions, site.queries);
  for (const std::int64_t row : rows) {
    require(row >= 0 && row < queries, "there is no row {} of head {} to keep; the rows are 0 to {}", row, name,
            queries - 1);
  }
}

SurveyMaps::SurveyMaps(const Attentions& attentions, const HeadMapsOptions& options)
    : attentions_(attentions), options_(options) {
  check_kept(options.keep.size(), options.keep_rows.size());
  for (const HeadIndex& head : options.keep) check_there(attentions, head, options.keep_rows);
  std::vector<MapSizes> sizes;
  std::size_t beside = 0;
  for (std::size_t s = 0; s < attentions.sites.size(); ++s) {
    const AttentionSite& site = attentions.sites[s];
    const std::int64_t queries = count_of(attentions, site.queries), keys = count_of(attentions, site.keys);
    const std::int64_t heads = site.layers * site.heads;
    beside += static_cast<std::size_t>(heads * keys) * kPerLength;
    if (is_long(s)) {
      sizes.push_back({heads, queries, keys, std::ranges::count(options.keep, s, &HeadIndex::site),
                       std::min(keys, AttentionMaps::kTop)});
    } else {
      beside += static_cast<std::size_t>(heads * queries * keys) * kPerWeight;
    }
  }
  grid_ =
      finest_grid(sizes, std::ssize(options.keep_rows), Dtype::f32, options.bytes - std::min(options.bytes, beside));
}

bool SurveyMaps::is_long(std::size_t site) const {
  const AttentionSite& own = attentions_.sites[site];
  return std::max(count_of(attentions_, own.queries), count_of(attentions_, own.keys)) > AttentionMaps::kWhole;
}

HeadMap SurveyMaps::map(const HeadIndex& head, const Tensor& weights) const {
  HeadMap map;
  map.blocks = means_of_blocks(weights, std::min(weights.size(0), grid_), std::min(weights.size(1), grid_));
  if (std::ranges::find(options_.keep, head) == options_.keep.end()) return map;
  keep_top(map, weights);
  if (options_.keep_rows.empty()) return map;
  map.rows = Tensor::uninitialized({std::ssize(options_.keep_rows), weights.size(1)}, Dtype::f32);
  for (std::int64_t i = 0; i < map.rows.size(0); ++i) {
    convert(weights.view().select(0, options_.keep_rows[static_cast<std::size_t>(i)]), map.rows.view().select(0, i));
  }
  return map;
}

// The share of weight that is elsewhere than the mask alone would put it, evenly over the keys that a query sees: a
// mean over the queries that see several; 1 if none does.
double beyond_mask(const Tensor& weights, const Attentions& attentions, std::size_t site) {
  const std::int64_t keys = weights.size(1);
  std::vector<bool> is_seen(static_cast<std::size_t>(keys), true);
  for (const KeyIndex& one : attentions.left_out.keys) {
    if (one.site == site) is_seen[static_cast<std::size_t>(one.key)] = false;
  }
  double sum = 0;
  std::int64_t queries = 0;
  for (std::int64_t i = 0; i < weights.size(0); ++i) {
    const double* row = weights.data<double>() + i * keys;
    const auto end = is_seen.begin() + (attentions.sites[site].causal ? std::min(i + 1, keys) : keys);
    const auto seen = std::count(is_seen.begin(), end, true);
    if (seen < 2) continue;
    double apart = 0;
    for (auto each = is_seen.begin(); each != end; ++each, ++row) {
      if (*each) apart += std::abs(*row - 1.0 / static_cast<double>(seen));
    }
    sum += apart / 2;
    ++queries;
  }
  return queries > 0 ? sum / static_cast<double>(queries) : 1;
}

// None of a head that shows its mask: a causal one alone puts half of the weight of few tokens on the first.
HeadPattern pattern_of(const HeadSummary& summary, const Tensor& weights, const Attentions& attentions,
                       std::size_t site, double largest_entropy) {
  constexpr double kOfMask = 0.2;
  const AttentionSite& own = attentions.sites[site];
  const HeadPattern pattern = pattern_of(summary, largest_entropy, own.queries != own.keys);
  return pattern == HeadPattern::spread || beyond_mask(weights, attentions, site) >= kOfMask ? pattern
                                                                                             : HeadPattern::none;
}

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
  const auto& [sequences, sites, title, alignment, left_out, remarks, outputs] = survey.attentions;
  std::optional<SurveyMaps> maps;
  if (options.maps) {
    maps.emplace(survey.attentions, *options.maps);
    survey.kept_rows = options.maps->keep_rows;
  }
  std::optional<WordAlignment> words;
  if (alignment) words.emplace(*alignment);
  std::vector<double> largest;
  for (std::size_t s = 0; s < sites.size(); ++s) largest.push_back(largest_entropy(survey.attentions, s));
  const auto add = [&](std::size_t s, std::int64_t layer, const SeenLayer& seen) {
    const AttentionSite& site = sites[s];
    for (std::int64_t head = 0; head < site.heads; ++head) {
      Tensor weights = part_of(seen.weights, head);
      const HeadSummary summary = summary_of(weights, survey.attentions, s);
      HeadSurvey::Entry& entry = survey.heads.emplace_back();
      entry.index = {layer, head, s};
      entry.summary = summary;
      const bool is_left_out = std::ranges::find(left_out.heads, entry.index) != left_out.heads.end();
      if (!is_left_out) entry.pattern = pattern_of(summary, weights, survey.attentions, s, largest[s]);
      if (seen.value.element_count() > 0)
        set_value_norm(entry, weights, value_lengths(seen.value, seen.out_weight, site.heads, head));
      const bool is_long = maps && maps->is_long(s);
      if (is_long) entry.map = maps->map(entry.index, weights);
      if (options.keep_weights || (maps && !is_long)) entry.weights = std::move(weights);
    }
    if (words && alignment->site == s) words->add(seen.weights);
    if (layer == 0 && seen.value.element_count() > 0) {
      survey.costs[s] = plan_of_layer(survey.attentions, {.site = s}, seen.head_dim, seen.value.size(-1));
    }
  };
  observe_layers(input, add, [&](std::string_view name, const TensorView& value) {
    add_sublayer(survey.sublayers, sequences, name, value);
  });
  if (words) {
    survey.word_weights = words->weights();
    if (std::ranges::all_of(sequences, [](const auto& one) { return one.tokens.size() <= kMostMeasured; })) {
      survey.word_alignment = align_words(input);
    }
  }
  std::ranges::sort(survey.heads, {}, [](const HeadSurvey::Entry& entry) {
    return std::tuple(entry.index.site, entry.index.layer, entry.index.head);
  });
  return survey;
}

}  // namespace qkv
