// Measures keys and heads for one token.
#include "qkv/explain/token_measures.h"

#include <algorithm>
#include <cmath>

#include "core/share.h"
#include "explain/measure/rollout.h"
#include "explain/measure/weight_measures.h"
#include "explain/observe/observe.h"
#include "explain/observe/require.h"

namespace qkv {
namespace {

using Numbers = std::vector<double>;

// A sequence that is read whole before anything is written or said of it.
bool is_source(const Attentions& attentions, std::size_t sequence) {
  if (attentions.outputs) return true;
  const auto& alignment = attentions.alignment;
  return alignment && !alignment->is_continuation && sequence == attentions.sites[alignment->site].keys;
}

// The queries whose weights count: the token's, or all.
struct QueryRows {
  QueryRows(const Attentions& attentions, std::size_t site, std::int64_t token) {
    const std::size_t queries = attentions.sites[site].queries;
    const bool all = is_source(attentions, queries);
    begin = all ? 0 : token;
    end = all ? std::ssize(attentions.sequences[queries].tokens) : token + 1;
  }
  std::int64_t begin = 0, end = 0;
};

// The first keys that the token can depend on.
std::int64_t keys_seen(const Attentions& attentions, std::size_t site, std::int64_t token) {
  const AttentionSite& own = attentions.sites[site];
  return own.causal ? token + 1 : std::ssize(attentions.sequences[own.keys].tokens);
}

std::vector<HeadIndex> heads_of(const Attentions& attentions) {
  std::vector<HeadIndex> heads;
  for (std::size_t s = 0; s < attentions.sites.size(); ++s) {
    for (std::int64_t layer = 0; layer < attentions.sites[s].layers; ++layer) {
      for (std::int64_t head = 0; head < attentions.sites[s].heads; ++head) heads.push_back({layer, head, s});
    }
  }
  return heads;
}

double cosine(const Tensor& a, const Tensor& b, std::int64_t token) {
  const std::int64_t size = a.size(1);
  double ab = 0, aa = 0, bb = 0;
  for (std::int64_t e = 0; e < size; ++e) {
    const double x = a.view().at<float>({token, e}), y = b.view().at<float>({token, e});
    ab += x * y, aa += x * x, bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

// The token's loss without each of these, one run each.
Numbers knock_out(const Explainable& input, std::int64_t token, const std::vector<LeftOut>& all, ShareTurns& turns) {
  const Outcome whole = input.outcome({});
  Numbers losses;
  for (const LeftOut& more : all) {
    const Outcome without = input.outcome(more);
    const auto t = static_cast<std::size_t>(token);
    losses.push_back(whole.log_probabilities.empty() ? 1 - cosine(whole.outputs, without.outputs, token)
                                                     : whole.log_probabilities[t] - without.log_probabilities[t]);
    turns.next();
  }
  return losses;
}

// Sums of the numbers of each pair, over the keys and over the heads.
class PairSums {
 public:
  PairSums(const Attentions& attentions, const std::vector<HeadIndex>& heads) : heads_(heads), by_head(heads.size()) {
    for (const AttentionSite& site : attentions.sites) {
      by_key.emplace_back(attentions.sequences[site.keys].tokens.size());
    }
  }

  // values [queries, keys] of a head, of these queries.
  void add(const HeadIndex& index, const Tensor& values, std::int64_t begin, std::int64_t end, double factor) {
    double& sum = by_head[static_cast<std::size_t>(std::ranges::find(heads_, index) - heads_.begin())];
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < values.size(1); ++j) {
        const double value = factor * values.view().at<double>({i, j});
        by_key[index.site][static_cast<std::size_t>(j)] += value;
        sum += value;
      }
    }
  }

 private:
  const std::vector<HeadIndex>& heads_;

 public:
  std::vector<Numbers> by_key{};
  Numbers by_head{};
};

void correlate(std::vector<MeasuredBy>& by) {
  const auto knock_out = std::ranges::find(by, Measure::knock_out, &MeasuredBy::measure);
  if (knock_out == by.end()) return;
  for (MeasuredBy& one : by) one.correlation = rank_correlation(one.values, knock_out->values);
}

}  // namespace

const char* name_of(Measure measure) {
  constexpr const char* kNames[] = {"weight", "value_norm", "gradient", "rollout", "knock_out"};
  return kNames[static_cast<std::size_t>(measure)];
}

std::size_t measured_sequence(const Attentions& attentions) {
  if (attentions.outputs) return attentions.outputs->sequence;
  return attentions.alignment ? attentions.alignment->output_sequence : attentions.sites[0].queries;
}

TokenMeasures measure_token(const Explainable& input, std::int64_t token) {
  TokenMeasures found{.attentions = input.attentions(), .token = token};
  const Attentions& all = found.attentions;
  found.sequence = measured_sequence(all);
  const std::int64_t tokens = std::ssize(all.sequences[found.sequence].tokens);
  require(token >= 0 && token < tokens, "there is no token {}; the tokens are 0 to {}", token, tokens - 1);
  for (std::size_t s = 0; s < all.sites.size(); ++s) found.keys.push_back({.site = s});
  const auto add = [&](std::size_t site, Measure measure, Numbers values) {
    values.resize(static_cast<std::size_t>(keys_seen(all, site, token)));
    found.keys[site].by.push_back({.measure = measure, .values = std::move(values)});
  };
  const auto add_rollout = [&] {
    if (all.alignment || all.outputs) return;
    Rollout rollout(input);
    input.run(rollout);
    add(0, Measure::rollout, rollout.of(token));
  };
  if (std::ranges::any_of(all.sequences, [](const auto& one) { return one.tokens.size() > kMostMeasured; })) {
    add_rollout();
    return found;
  }

  found.heads = heads_of(all);
  PairSums weight(all, found.heads), value_norm(all, found.heads), gradient(all, found.heads);
  observe_layers(input, [&](std::size_t site, std::int64_t layer, const SeenLayer& seen) {
    const QueryRows rows(all, site, token);
    const double mean = 1 / static_cast<double>(rows.end - rows.begin);
    const auto count = static_cast<double>(all.sites[site].layers * all.sites[site].heads);
    for (std::int64_t head = 0; head < all.sites[site].heads; ++head) {
      const Tensor weights = part_of(seen.weights, head);
      const HeadIndex index{layer, head, site};
      weight.add(index, weights, rows.begin, rows.end, mean / count);
      const Tensor lengths = value_lengths(seen.value, seen.out_weight, all.sites[site].heads, head);
      value_norm.add(index, value_norms(weights, lengths), rows.begin, rows.end, mean);
    }
  });
  const bool writes = all.alignment || all.outputs;
  const bool is_whole = all.left_out.keys.empty() && all.left_out.heads.empty();
  if (writes) {
    const bool is_score = all.outputs && all.outputs->are_scores;
    (is_score ? found.score : found.log_probability) =
        input.outcome({}).log_probabilities.at(static_cast<std::size_t>(token));
  }
  if (writes && is_whole) {
    for (const HeadGradient& one : gradient_weights(input, token)) {
      gradient.add(one.index, one.values, 0, one.values.size(0), 1);
    }
  }
  for (std::size_t s = 0; s < all.sites.size(); ++s) {
    add(s, Measure::weight, weight.by_key[s]);
    add(s, Measure::value_norm, value_norm.by_key[s]);
    if (writes && is_whole) add(s, Measure::gradient, gradient.by_key[s]);
  }
  add_rollout();
  const TokenWords words = all.outputs ? all.sequences[all.sites[0].keys].words : TokenWords();
  std::int64_t left_out = std::ssize(found.heads) + std::ssize(words.words);
  for (std::size_t s = 0; s < all.sites.size(); ++s) left_out += keys_seen(all, s, token);
  ShareTurns turns(left_out);
  for (std::size_t s = 0; s < all.sites.size(); ++s) {
    std::vector<LeftOut> keys;
    for (std::int64_t j = 0; j < keys_seen(all, s, token); ++j) keys.push_back({.keys = {{j, s}}});
    add(s, Measure::knock_out, knock_out(input, token, keys, turns));
    correlate(found.keys[s].by);
  }
  found.by_heads.push_back({.measure = Measure::value_norm, .values = value_norm.by_head});
  if (writes && is_whole) found.by_heads.push_back({.measure = Measure::gradient, .values = gradient.by_head});
  std::vector<LeftOut> heads;
  for (const HeadIndex& head : found.heads) heads.push_back({.heads = {head}});
  found.by_heads.push_back({.measure = Measure::knock_out, .values = knock_out(input, token, heads, turns)});
  correlate(found.by_heads);
  if (words.words.empty()) return found;
  Numbers sums(words.words.size());
  std::vector<LeftOut> together(words.words.size());
  for (std::size_t j = 0; j < words.word_of.size(); ++j) {
    if (words.word_of[j] < 0) continue;
    const auto word = static_cast<std::size_t>(words.word_of[j]);
    sums[word] += gradient.by_key[0][j];
    together[word].keys.push_back({static_cast<std::int64_t>(j), 0});
  }
  if (is_whole) found.by_words.push_back({.measure = Measure::gradient, .values = std::move(sums)});
  found.by_words.push_back({.measure = Measure::knock_out, .values = knock_out(input, token, together, turns)});
  correlate(found.by_words);
  return found;
}

}  // namespace qkv
