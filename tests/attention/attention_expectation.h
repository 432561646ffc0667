// One case of attention_case.h against the double reference.
#pragma once

#include "attention/extras/statistics_expectation.h"

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

// How large the numbers are whose roundings reach a logit before its cap, through tanh and v: W_q q + W_k k of a hidden
// unit, where rows of W have a length of about 1. 0 for scores without hidden units.
inline double hidden_units(const AttentionCase& drawn) {
  if (!drawn.options.score.v()) return 0;
  const double units = (longest_row(drawn.q) + longest_row(drawn.k)) / std::sqrt(static_cast<double>(drawn.q.size(-1)));
  return std::abs(drawn.options.scale.value_or(1)) * longest_row(drawn.options.score.v()) * units;
}

// The largest logit, without the cap, as far as it says how exact a logit is: a capped one moves less than its score,
// but no less than that near 0.
inline double largest_logit(const AttentionCase& drawn, const reference::AttentionResult& exact) {
  const double units = hidden_units(drawn);
  if (drawn.options.soft_cap == 0) return std::max(largest(exact.logits), units);
  AttentionOptions uncapped = drawn.options;
  uncapped.soft_cap = 0;
  const double score = std::max(largest(reference::attention(drawn.q, drawn.k, drawn.v, uncapped).logits), units);
  return std::max(largest(exact.logits), std::min(score, 128.0));
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

  // A logit of size L before its cap carries a few roundings of L * epsilon / 2, which the exponential hands on to the
  // weights. In f64 the reference rounds as often.
  const double unit = drawn.q.dtype() == Dtype::f64 ? 2 * 0x1p-29 : 1;
  const double tolerance = unit * (4e-6 + 5e-7 * largest_logit(drawn, exact));
  const double size = std::max(1.0, largest(drawn.v)) * drawn.dropout_factor();
  const double tiny = drawn.out_dtype == Dtype::f16 ? 0x1p-25 : 0;  // half of the smallest f16
  const double chain = unit * chain_error(drawn.v, std::min<std::int64_t>(exact.logits.size(-1), 1024));
  std::string found = requested.difference(tolerance);
  for (const auto& [name, got] : {std::pair("output", &out), {"output without requests", &alone}}) {
    const std::string what = mismatch(*got, exact.out, (tolerance + chain) * size + tiny, rounding(drawn.out_dtype));
    if (!what.empty()) found += fmt::format("{}: {}\n", name, what);
  }
  if (!same_bits(alone, out)) found += "requests change bits of the output\n";
  return found;
}

}  // namespace qkv::testing
