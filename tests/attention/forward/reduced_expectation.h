// One case of attention_case.h with a precision that is not exact: within the bound of precision.h of the double
// reference, or the exact kernel's bits where there is no kernel of its own.
#pragma once

#include "attention/attention_expectation.h"
#include "qkv/attention/attention_plan.h"

namespace qkv::testing {

inline constexpr double kReducedUnit = 0x1p-8;  // of rounding to bf16
inline constexpr double kCoarse = 0x1p-12;      // of the exponential

inline Tensor absolute(const TensorView& view) {
  Tensor tensor = convert(view, Dtype::f64);
  double* values = tensor.data<double>();
  std::transform(values, values + tensor.element_count(), values, [](double x) { return std::abs(x); });
  return tensor;
}

// |scale| sum_i |q_i k_ji| for each visible pair, -infinity for the others.
inline Tensor sizes_of_products(const TensorView& q, const TensorView& k, const AttentionOptions& options) {
  const bool scaled = options.score.kind() == Score::Kind::scaled_dot;
  const double scale = options.scale.value_or(scaled ? 1 / std::sqrt(static_cast<double>(q.size(-1))) : 1.0);
  AttentionOptions bare{.mask = options.mask, .bias = {}, .scale = std::abs(scale)};
  bare.offsets_query = options.offsets_query;
  bare.offsets_key = options.offsets_key;
  bare.block_table = options.block_table;
  Tensor w;
  if (options.score.kind() == Score::Kind::bilinear) {
    w = absolute(options.score.w_query());
    bare.score = Score::bilinear(w);
  }
  const Tensor key = absolute(k);
  return reference::attention(absolute(q), key, key, bare).logits;
}

// What of a call, whose result in f64 is `exact`, breaks the bound of precision.h: nothing, or the first element that
// does.
inline std::string beyond_bound(const TensorView& q, const TensorView& k, const TensorView& v, const Outcome& got,
                                const reference::AttentionResult& exact, const AttentionOptions& options) {
  const Tensor v_sizes = absolute(v);
  const std::vector<double> spread =
      values(reference::attention(convert(q, Dtype::f64), convert(k, Dtype::f64), v_sizes, options).out);
  const std::vector<double> products = values(sizes_of_products(q, k, options));
  const std::vector<double> out = values(got.out), log_sum_exp = values(got.log_sum_exp), logits = values(got.logits),
                            weights = values(got.weights), exact_out = values(exact.out),
                            exact_sums = values(exact.log_sum_exp), exact_logits = values(exact.logits),
                            exact_weights = values(exact.weights);
  // What the exact kernel may be off, as in attention_expectation.h.
  const double own = 4e-6 + 5e-7 * largest(exact.logits);
  const bool rounds_inputs = q.dtype() != Dtype::bf16 || options.score.kind() == Score::Kind::bilinear;
  const std::size_t rows = exact_sums.size(), k_len = static_cast<std::size_t>(exact.logits.size(-1)),
                    value_dim = static_cast<std::size_t>(v.size(-1));
  const auto differs = [](double a, double b, double bound) { return a != b && !(std::abs(a - b) <= bound); };
  for (std::size_t row = 0; row < rows; ++row) {
    double product = 0;  // the largest
    for (std::size_t j = 0; j < k_len; ++j) product = std::max(product, products[row * k_len + j]);
    const double e = rounds_inputs ? (2 * kReducedUnit + kReducedUnit * kReducedUnit) * product : 0;
    const double growth = std::exp(2 * e + kCoarse);
    for (std::size_t j = row * k_len; j < (row + 1) * k_len; ++j) {
      if (differs(logits[j], exact_logits[j], e + own)) return fmt::format("logit {}: {}", j, logits[j]);
      if (differs(weights[j], exact_weights[j], (growth - 1) * exact_weights[j] + own)) {
        return fmt::format("weight {}: {}", j, weights[j]);
      }
    }
    if (differs(log_sum_exp[row], exact_sums[row], e + kCoarse + own + 0x1p-23 * std::abs(exact_sums[row]))) {
      return fmt::format("log-sum-exp {}: {}, not {}", row, log_sum_exp[row], exact_sums[row]);
    }
    const double factor = growth * (1 + kReducedUnit) * (q.dtype() == Dtype::bf16 ? 1 : 1 + kReducedUnit) - 1;
    for (std::size_t at = row * value_dim; at < (row + 1) * value_dim; ++at) {
      const double bound = (factor + own) * spread[at] + own * largest(v) +
                           rounding(got.out.dtype()) * (1 + factor) * spread[at] + 0x1p-25;
      if (differs(out[at], exact_out[at], bound)) {
        return fmt::format("output {}: {}, not {} within {}", at, out[at], exact_out[at], bound);
      }
    }
  }
  return "";
}

// The outputs of a case in this precision, in places like those of `shapes`: a reference::AttentionResult or an
// Outcome.
template <class Shapes>
Outcome attend_drawn(const AttentionCase& drawn, Precision precision, const Shapes& shapes) {
  AttentionOptions options = drawn.options;
  options.precision = precision;
  const Dtype wide = drawn.q.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Outcome got{.out = filled(shapes.out.shape(), kNan, drawn.out_dtype),
              .log_sum_exp = filled(shapes.log_sum_exp.shape(), kNan, wide),
              .weights = filled(shapes.weights.shape(), kNan, wide),
              .logits = filled(shapes.logits.shape(), kNan, wide)};
  const bool one_batch = !drawn.packed() && drawn.q.rank() == 3;
  const auto in_rank = [&](Tensor& tensor) { return one_batch ? tensor.view().select(0, 0) : tensor.view(); };
  attention(drawn.q, drawn.k, drawn.v, in_rank(got.out), options,
            {.log_sum_exp = in_rank(got.log_sum_exp), .weights = in_rank(got.weights), .logits = in_rank(got.logits)});
  return got;
}

struct ReducedOutcome {
  std::string found;          // what breaks the bound, or the first of other bits than the exact kernel's
  bool is_different = false;  // from the exact kernel
  Outcome got{};
};

inline ReducedOutcome reduced_outcome(const AttentionCase& drawn, Precision precision = Precision::reduced) {
  if (!drawn.is_finite) return {};
  AttentionOptions options = drawn.options;
  options.precision = precision;
  const reference::AttentionResult exact = reference::attention(drawn.q, drawn.k, drawn.v, drawn.options);
  Outcome got = attend_drawn(drawn, precision, exact);
  const Outcome plain = attend_drawn(drawn, Precision::exact, exact);
  const bool same = same_bits(got.out, plain.out) && same_bits(got.log_sum_exp, plain.log_sum_exp) &&
                    same_bits(got.weights, plain.weights) && same_bits(got.logits, plain.logits);
  if (plan(drawn.q, drawn.k, drawn.v, options).precision == Precision::exact) {
    return {same ? "" : "precision reduced, computed exactly: other bits\n"};
  }
  const std::string beyond = beyond_bound(drawn.q, drawn.k, drawn.v, got, exact, drawn.options);
  return {beyond.empty() ? "" : "precision reduced: " + beyond + "\n", !same, std::move(got)};
}

}  // namespace qkv::testing
