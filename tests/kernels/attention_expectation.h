// One case of attention_case.h against the double reference.
#pragma once

#include "kernels/attention_case.h"
#include "reference/attention.h"

namespace qkv::testing {

// |got - wanted| <= absolute + relative * |wanted| for each element; equal infinities agree.
inline std::string mismatch(const TensorView& got, const TensorView& wanted, double absolute, double relative) {
  const std::vector<double> a = values(got), b = values(wanted);
  if (a.size() != b.size()) return fmt::format("{} elements instead of {}", a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || std::abs(a[i] - b[i]) <= absolute + relative * std::abs(b[i])) continue;
    return fmt::format("element {} is {}, should be {}", i, a[i], b[i]);
  }
  return "";
}

// The length of the longest row.
inline double longest_row(const TensorView& view) {
  const auto size = static_cast<std::size_t>(view.size(-1));
  const std::vector<double> numbers = values(view);
  double largest = 0;
  for (std::size_t row = 0; row + size <= numbers.size(); row += size) {
    double sum = 0;
    for (std::size_t c = 0; c < size; ++c) sum += numbers[row + c] * numbers[row + c];
    largest = std::max(largest, std::sqrt(sum));
  }
  return largest;
}

// What of a case differs from the reference: nothing, or its name and the first wrong element.
inline std::string unlike_reference(const AttentionCase& drawn) {
  const reference::AttentionResult exact = reference::attention(drawn.q, drawn.k, drawn.v, drawn.options);
  const Dtype wide = drawn.q.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  const auto place = [&](const Tensor& like, Dtype dtype) { return filled(like.shape(), kNan, dtype); };
  Tensor out = place(exact.out, drawn.out_dtype), log_sum_exp = place(exact.log_sum_exp, wide);
  Tensor weights = place(exact.weights, wide), logits = place(exact.logits, wide);
  const auto in_rank = [&](Tensor& tensor) {
    const bool one_batch = !drawn.packed() && drawn.q.rank() == 3;
    return one_batch ? tensor.view().select(0, 0) : tensor.view();
  };
  attention(drawn.q, drawn.k, drawn.v, in_rank(out), drawn.options,
            {.log_sum_exp = in_rank(log_sum_exp), .weights = in_rank(weights), .logits = in_rank(logits)});

  // A logit of size L carries a few roundings of L * epsilon / 2, which the exponential hands on to the weights.
  const double unit = wide == Dtype::f64 ? 0x1p-29 : 1;
  const double tolerance = unit * (4e-6 + 5e-7 * largest(exact.logits));
  const double size = std::max(1.0, largest(drawn.v)) * drawn.dropout_factor();
  const double tiny = drawn.out_dtype == Dtype::f16 ? 0x1p-25 : 0;  // half of the smallest f16
  std::string found;
  const auto add = [&](const char* name, const std::string& what) {
    if (!what.empty()) found += fmt::format("{}: {}\n", name, what);
  };
  add("output", mismatch(out, exact.out, tolerance * size + tiny, rounding(drawn.out_dtype)));
  add("log-sum-exp", mismatch(log_sum_exp, exact.log_sum_exp, tolerance, 0));
  add("weights", mismatch(weights, exact.weights, tolerance, 0));
  add("logits", mismatch(logits, exact.logits, tolerance, 0));

  // Asked for nothing, the output has the same bits.
  Tensor alone = place(exact.out, drawn.out_dtype);
  attention(drawn.q, drawn.k, drawn.v, in_rank(alone), drawn.options);
  if (!same_bits(alone, out)) add("output without extras", "other bits");
  return found;
}

}  // namespace qkv::testing
