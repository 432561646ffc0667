// Checks weights that were given, and passes them on as a run would.
#include "qkv/explain/given_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "core/refuse.h"
#include "core/stop.h"

namespace qkv {
namespace {

constexpr const char* kFunction = "report";
constexpr double kRowTolerance = 0.02;

// [SEP], <s>, <|endoftext|>.
bool is_special(const std::string& token) {
  if (token.size() < 3) return false;
  const bool is_bracketed = token.front() == '[' && token.back() == ']';
  return (is_bracketed && std::ranges::all_of(token.substr(1, token.size() - 2),
                                              [](unsigned char c) { return std::isupper(c) != 0; })) ||
         (token.front() == '<' && token.back() == '>');
}

// Rows that do not sum to 1: how many, and which is the first.
struct OddRows {
  std::int64_t count = 0;
  std::string first{};
};

void check_weights(const GivenAttention& given, std::size_t layer, const Tensor& weights, OddRows& odd) {
  const Tensor exact = convert(weights, Dtype::f64);
  const double* weight = exact.data<double>();
  for (std::int64_t head = 0; head < weights.size(0); ++head) {
    for (std::int64_t i = 0; i < weights.size(1); ++i) {
      check_stop();
      double sum = 0;
      for (std::int64_t j = 0; j < weights.size(2); ++j, ++weight) {
        const auto refuse_weight = [&](const std::string& what) {
          refuse(kFunction, "{}, layer {}, head {}: the weight of query {} on key {} is {}", given.name, layer, head, i,
                 j, what);
        };
        if (!std::isfinite(*weight)) refuse_weight("not a number");
        if (*weight < 0) refuse_weight(fmt::format("{:.6g}; weights are 0 or more", *weight));
        sum += *weight;
      }
      if (given.is_part || sum == 0 || std::abs(sum - 1) <= kRowTolerance) continue;  // 0: every key is masked
      if (odd.count++ == 0) {
        odd.first = fmt::format("of {}, layer {}, head {}, query {}, sums to {:.4g}", given.name, layer, head, i, sum);
      }
    }
  }
}

// Whether no query has weight on a later key.
bool is_causal(const GivenAttention& given) {
  if (given.queries != given.keys || given.is_part) return false;
  for (const Tensor& weights : given.layers) {
    const Tensor exact = convert(weights, Dtype::f64);
    for (std::int64_t row = 0; row < weights.size(0) * weights.size(1); ++row) {
      const double* begin = exact.data<double>() + row * weights.size(2);
      const std::int64_t query = row % weights.size(1);
      if (std::any_of(begin + query + 1, begin + weights.size(2), [](double w) { return w != 0; })) return false;
    }
  }
  return given.layers.front().size(1) > 1;
}

}  // namespace

GivenWeights::GivenWeights(std::vector<AttentionSequence> sequences, std::vector<GivenAttention> given)
    : given_(std::move(given)) {
  refuse_unless(!given_.empty(), kFunction, "there are no weights");
  for (AttentionSequence& sequence : sequences) {
    refuse_unless(!sequence.tokens.empty(), kFunction, "there are no {} tokens", sequence.name);
    if (!sequence.special.empty()) continue;
    for (const std::string& token : sequence.tokens) sequence.special.push_back(is_special(token) ? 1 : 0);
  }
  OddRows odd;
  for (const GivenAttention& own : given_) {
    refuse_unless(!own.layers.empty(), kFunction, "{} has no layers", own.name);
    const auto queries = std::ssize(sequences[own.queries].tokens), keys = std::ssize(sequences[own.keys].tokens);
    for (std::size_t layer = 0; layer < own.layers.size(); ++layer) {
      const Tensor& weights = own.layers[layer];
      refuse_unless(weights.rank() == 3 && weights.size(0) > 0, kFunction,
                    "{}, layer {}: weights are {}; they must be [heads, queries, keys]", own.name, layer,
                    to_string(weights.shape()));
      const std::int64_t heads = own.layers.front().size(0);
      refuse_unless(weights.shape() == Dims{heads, queries, keys}, kFunction,
                    "{}, layer {}: weights are {}; of {} heads, {} and {} tokens they must be [{}, {}, {}]", own.name,
                    layer, to_string(weights.shape()), heads, queries, keys, heads, queries, keys);
      check_weights(own, layer, weights, odd);
    }
    attentions_.sites.push_back({.name = own.name,
                                 .title = own.title,
                                 .caption = own.caption,
                                 .before = own.name + ".",
                                 .after = ".",
                                 .layers = std::ssize(own.layers),
                                 .heads = own.layers.front().size(0),
                                 .causal = is_causal(own),
                                 .queries = own.queries,
                                 .keys = own.keys});
  }
  attentions_.sequences = std::move(sequences);
  if (odd.count > 0) {
    attentions_.remarks.push_back(
        fmt::format("Rows of weights that do not sum to 1: {}; the first, {}.", odd.count, odd.first));
  }
}

void GivenWeights::run(Observer& observer) const {
  for (std::size_t s = 0; s < given_.size(); ++s) {
    for (std::size_t layer = 0; layer < given_[s].layers.size(); ++layer) {
      const TensorView weights = given_[s].layers[layer].view().transpose(0, 1);  // [queries, heads, keys]
      observer.receive(attentions_.sites[s].scope(static_cast<std::int64_t>(layer)) + "weights", weights);
    }
  }
}

}  // namespace qkv
