// Collects the intermediates of one head from a run, and finds tokens and keys in them.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "explain/measure/weight_measures.h"
#include "explain/observe/intermediates.h"
#include "explain/observe/left_out_masks.h"
#include "explain/observe/observe.h"
#include "explain/observe/require.h"
#include "explain/observe/token_names.h"
#include "qkv/target.h"

namespace qkv {
namespace {

// [n, m] of sum over e of left(i, e) * right(e, j).
Tensor product(const TensorView& left, const TensorView& right) {
  Tensor out = Tensor::zeros({left.size(0), right.size(1)}, Dtype::f64);
  double* sum = out.data<double>();
  for (std::int64_t i = 0; i < left.size(0); ++i) {
    for (std::int64_t j = 0; j < right.size(1); ++j, ++sum) {
      for (std::int64_t e = 0; e < left.size(1); ++e) *sum += left.at<double>({i, e}) * right.at<double>({e, j});
    }
  }
  return out;
}

// [n, m] of sum over e of v(e) * tanh(query(i, e) + key(j, e)).
Tensor sums_of_tanh(const TensorView& query, const TensorView& key, const TensorView& v) {
  Tensor out = Tensor::zeros({query.size(0), key.size(0)}, Dtype::f64);
  double* sum = out.data<double>();
  for (std::int64_t i = 0; i < query.size(0); ++i) {
    for (std::int64_t j = 0; j < key.size(0); ++j, ++sum) {
      for (std::int64_t e = 0; e < v.size(0); ++e) {
        *sum += v.at<double>({e}) * tanh(query.at<double>({i, e}) + key.at<double>({j, e}));
      }
    }
  }
  return out;
}

// Log-sum-exp of each row.
Tensor log_sums(const Tensor& logits) {
  Tensor sums = Tensor::zeros({logits.size(0)}, Dtype::f64);
  for (std::int64_t i = 0; i < logits.size(0); ++i) {
    const std::span row(logits.data<double>() + i * logits.size(1), static_cast<std::size_t>(logits.size(1)));
    const double most = *std::ranges::max_element(row);
    double sum = 0;
    for (const double logit : row) sum += exp(logit - most);
    sums.data<double>()[i] = std::isinf(most) ? most : most + log(sum);
  }
  return sums;
}

// [queries, keys]: what a head adds to the logits.
Tensor bias_of(const RelativeTable& table, std::int64_t head, std::int64_t queries, std::int64_t keys) {
  const Tensor values = convert(table.values().select(1, head), Dtype::f64);
  Tensor bias = Tensor::zeros({queries, keys}, Dtype::f64);
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t j = 0; j < keys; ++j)
      bias.data<double>()[i * keys + j] = values.data<double>()[table.bucket(i, j)];
  }
  return bias;
}

// The difference of the logits from scale * scores + bias, capped.
double difference_of_logits(const HeadTrace& trace) {
  double largest = 0;
  for (std::int64_t i = 0; i < trace.scores.element_count(); ++i) {
    const double logit = trace.logits.data<double>()[i];
    if (logit == -HUGE_VAL) continue;  // hidden
    const double bias = trace.bias.element_count() == 0 ? 0 : trace.bias.data<double>()[i];
    const double sum = trace.scale * trace.scores.data<double>()[i] + bias;
    largest =
        larger(largest, std::abs(logit - (trace.soft_cap > 0 ? trace.soft_cap * tanh(sum / trace.soft_cap) : sum)));
  }
  return largest;
}

std::string title_of(const HeadIndex& index, const AttentionSite& site, const Attentions& attentions) {
  std::string head = site.title.empty() ? fmt::format("Layer {}, head {}", index.layer, index.head)
                                        : fmt::format("{}, layer {}, head {}", site.title, index.layer, index.head);
  head += without(attentions);
  return attentions.input.empty() ? head : head + ": " + attentions.input;
}

}  // namespace

inline namespace explaining {

void complete(HeadTrace& trace) {
  trace.scores = trace.score == Score::Kind::additive ? sums_of_tanh(trace.query, trace.key, trace.v)
                                                      : product(trace.query, trace.key.view().transpose(0, 1));
  trace.log_sum_exp = log_sums(trace.logits);
  trace.target = selected_target();
  trace.logits_difference = difference_of_logits(trace);
  trace.output_difference = largest_difference(trace.output, product(trace.weights, trace.value));
}

}  // namespace explaining

HeadTrace trace_head(const Explainable& input, const HeadIndex& index) {
  const Attentions& attentions = input.attentions();
  check_head(attentions, index);
  const AttentionSite& site = attentions.sites[index.site];
  const AttentionSequence &queries = attentions.sequences[site.queries], &keys = attentions.sequences[site.keys];
  HeadTrace trace;
  trace.title = title_of(index, site, attentions);
  trace.index = index;
  trace.heads = site.heads;
  trace.model_dim = site.model_dim;
  trace.score = site.score;
  trace.attention = site.name;
  trace.causal = site.causal;
  trace.cut = cut_of(attentions);
  trace.tokens = queries.tokens;
  trace.keys = keys.tokens;
  Tensor out_weight;
  const std::string scope = site.scope(index.layer);
  observe(input, [&](std::string_view name, const TensorView& value) {
    if (!name.starts_with(scope)) return;
    name.remove_prefix(scope.size());
    if (name == "v") trace.v = convert(value, Dtype::f64);
    if (name == "out_weight") out_weight = Tensor::copy(value);
    if (name == "value") trace.value_lengths = value_lengths(value, out_weight, site.heads, index.head);
    for (const auto& [wanted, tensor] : {std::pair("query", &trace.query), std::pair("key", &trace.key),
                                         std::pair("value", &trace.value), std::pair("logits", &trace.logits),
                                         std::pair("weights", &trace.weights), std::pair("heads", &trace.output)}) {
      if (name == wanted) *tensor = part_of(value, index.head * value.size(1) / site.heads);  // keys may be shared
    }
  });
  if (site.bias) trace.bias = bias_of(*site.bias, index.head, trace.query.size(0), trace.key.size(0));
  trace.value_norms = value_norms(trace.weights, trace.value_lengths);
  trace.cost = plan_of_layer(attentions, index, trace.query.size(1), trace.value.size(1));
  const double root = std::sqrt(static_cast<double>(trace.query.size(1)));
  trace.scale = !site.scales.empty()                     ? site.scales[static_cast<std::size_t>(index.layer)]
                : trace.score == Score::Kind::scaled_dot ? 1 / root
                                                         : 1;
  trace.soft_cap = site.soft_cap;
  complete(trace);
  trace.summary = summary_of(trace.weights, attentions, index.site);
  return trace;
}

std::vector<std::int64_t> keys_by_weight(const TensorView& weights, std::int64_t token) {
  std::vector<std::pair<double, std::int64_t>> ranked;
  for (std::int64_t key = 0; key < weights.size(1); ++key) {
    const double weight = weights.at<double>({token, key});
    ranked.emplace_back(std::isnan(weight) ? 1 : -weight, key);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::int64_t> keys;
  for (const auto& [rank, key] : ranked) keys.push_back(key);
  return keys;
}

std::int64_t find_token(std::span<const std::string> tokens, const std::string& name) {
  if (const auto found = std::find(tokens.begin(), tokens.end(), name); found != tokens.end()) {
    return found - tokens.begin();
  }
  const auto piece = std::find(tokens.begin(), tokens.end(), kPieceMark + name);
  if (piece != tokens.end()) return piece - tokens.begin();
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  if (whole && number >= 0 && number < static_cast<std::int64_t>(tokens.size())) return number;
  constexpr std::size_t kMostListed = 64;
  std::string list;
  for (const std::string& token : tokens.first(std::min(tokens.size(), kMostListed))) list += " " + token;
  if (tokens.size() > kMostListed) list += " ...";
  refuse("explain", "there is no token \"{}\"; the tokens, 0 to {}, are:{}", name, tokens.size() - 1, list);
}

}  // namespace qkv
