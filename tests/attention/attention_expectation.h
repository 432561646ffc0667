// One case of attention_case.h against the double reference.
#pragma once

#include "attention/extras/statistics_expectation.h"
#include "reference/scorer.h"

namespace qkv::testing {

// The length of the longest row of finite numbers.
inline double longest_row(const TensorView& view) {
  const auto size = static_cast<std::size_t>(view.size(-1));
  const std::vector<double> numbers = values(view);
  double largest = 0;
  for (std::size_t row = 0; row + size <= numbers.size(); row += size) {
    double sum = 0;
    for (std::size_t c = 0; c < size; ++c) sum += numbers[row + c] * numbers[row + c];
    if (std::isfinite(sum)) largest = std::max(largest, std::sqrt(sum));
  }
  return largest;
}

// The most weight that a key receives from all queries: the gradient of its value under a grad_out of ones.
inline double most_received(const TensorView& q, const TensorView& k, const AttentionOptions& options,
                            const Tensor& weights) {
  const int of_heads = options.offsets_query ? 1 : q.rank() - 3;
  const std::int64_t kv_heads = k.size(of_heads), longest = weights.size(-1);
  const reference::Batch batch(q, k, options);
  double most = 0;
  for (std::int64_t b = 0; b < batch.size(); ++b) {
    const TensorView own = batch.queries(weights.view(), b);
    std::vector<double> received(static_cast<std::size_t>(kv_heads * longest));
    for (std::int64_t h = 0; h < own.size(0); ++h) {
      double* sums = received.data() + h * kv_heads / own.size(0) * longest;
      for (std::int64_t i = 0; i < own.size(1); ++i) {
        for (std::int64_t j = 0; j < longest; ++j) sums[j] += own.at<double>({h, i, j});
      }
    }
    for (const double sum : received) most = std::max(most, sum);
  }
  return most;
}

// How large the sums are whose roundings reach a logit before cap and bias, as far as lengths of rows say: halfway in a
// chain of products of either sign they are half as long as both rows together. Rows of an additive score's W have a
// length of about 1, and its v takes hidden units of all signs; a bilinear W shortens a key by the root of head_dim.
inline double partial_sums(const AttentionCase& drawn) {
  const Score& score = drawn.options.score;
  const double root = std::sqrt(static_cast<double>(drawn.q.size(-1)));
  const double scale = std::abs(drawn.options.scale.value_or(reference::Scorer(score).default_scale(drawn.q.size(-1))));
  const double query = longest_row(drawn.q), key = longest_row(drawn.k);
  if (score.v()) return scale * longest_row(score.v()) * (query + key) / root;
  return scale * query * key / 2 / (score.w_query() ? root : 1);
}

// The largest logit, without the cap, as far as it says how exact a logit is: a capped one moves less than its score,
// but no less than that near 0.
inline double largest_logit(const AttentionCase& drawn, const reference::AttentionResult& exact) {
  const double sums = partial_sums(drawn);
  if (drawn.options.soft_cap == 0) return std::max(largest(exact.logits), sums);
  AttentionOptions uncapped = drawn.options;
  uncapped.soft_cap = 0;
  const double score = std::max(largest(reference::attention(drawn.q, drawn.k, drawn.v, uncapped).logits), sums);
  return std::max(largest(exact.logits), std::min(score, 128.0));
}

// How far a logit may be off, and a weight as a part of itself: a few roundings of L * epsilon / 2 for a logit of size
// L before its cap, or those of a chain where all products are equal.
inline double logit_tolerance(const AttentionCase& drawn, const reference::AttentionResult& exact) {
  const double unit = drawn.q.dtype() == Dtype::f64 ? 0x1p-29 : 1;
  const std::int64_t head_dim = drawn.q.size(-1);
  const double of_equal = std::min(chain_error(drawn.q, head_dim), chain_error(drawn.k, head_dim));
  return unit * (4e-6 + (5e-7 + of_equal) * largest_logit(drawn, exact));
}

// What differs between an output and the exact one: nothing, or its first wrong element. `tolerance`: of weights.
inline std::string unlike_exact(const AttentionCase& drawn, const Tensor& out, const Tensor& exact, double tolerance) {
  const double unit = drawn.q.dtype() == Dtype::f64 ? 0x1p-29 : 1;
  const double chain = unit * chain_error(drawn.v, std::min<std::int64_t>(drawn.longest_key_length(), 1024));
  const double size = std::max(1.0, largest(drawn.v)) * drawn.dropout_factor();
  const bool is_f16 = drawn.out_dtype == Dtype::f16;
  const double tiny = is_f16 ? 0x1p-25 : 0;  // half of the smallest f16
  Tensor wanted = Tensor::copy(exact);
  for (double* x = wanted.data<double>(); is_f16 && x != wanted.data<double>() + wanted.element_count(); ++x) {
    if (std::abs(*x) >= 65520) *x = std::copysign(kInfinity, *x);  // as it is rounded: dropout may multiply by 1,000
  }
  return mismatch(out, wanted, (tolerance + chain) * size + tiny, rounding(drawn.out_dtype));
}

// What of a case differs from the reference: nothing, or its name and the first wrong element.
inline std::string unlike_reference(const AttentionCase& drawn) {
  const reference::AttentionResult exact = reference::attention(drawn.q, drawn.k, drawn.v, drawn.options);
  const bool one_batch = !drawn.packed() && drawn.q.rank() == 3;
  const auto attend_into = [&](Tensor& out, const AttentionExtras& extras) {
    out = filled(exact.out.shape(), kNan, drawn.out_dtype);
    attention(drawn.q, drawn.k, drawn.v, one_batch ? out.view().select(0, 0) : out.view(), drawn.options, extras);
  };
  Tensor out, alone;
  RequestedOutputs requested(drawn, exact);
  attend_into(out, requested.extras);
  attend_into(alone, {});

  const double tolerance = logit_tolerance(drawn, exact);
  std::string found = requested.difference(tolerance);
  for (const auto& [name, got] : {std::pair("output", &out), {"output without requests", &alone}}) {
    const std::string what = unlike_exact(drawn, *got, exact.out, tolerance);
    if (!what.empty()) found += fmt::format("{}: {}\n", name, what);
  }
  if (!same_bits(alone, out)) found += "requests change bits of the output\n";
  return found;
}

}  // namespace qkv::testing
