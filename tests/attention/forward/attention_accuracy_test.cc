// How far the kernel may be from the double reference: never more than twice as far as plain loops in float, never
// beyond an absolute cap, and 16-bit results within a unit in the last place of the exact ones.
#include "attention/attention_testing.h"
#include "attention/plain_float.h"
#include "reference/attention.h"

namespace qkv {
namespace {

constexpr double kEpsilon = 0x1p-23;  // of float

constexpr testing::PlainShape kShapes[] = {{48, 128, 64, 64, 1},        {1, 1000, 64, 64, 1},   {20, 1023, 128, 96, 4},
                                           {300, 300, 32, 32, 1, true}, {9, 129, 256, 8, 16},   {17, 65, 1, 3, 8},
                                           {7, 500, 1024, 1024, 1},     {12, 4096, 64, 32, 15}, {2, 3000, 80, 80, 4}};

struct DrawnHead {
  DrawnHead(std::uint64_t seed, const testing::PlainShape& shape, Dtype dtype) {
    Random random(seed);
    q = testing::normal(random, {shape.q_len, shape.head_dim}, dtype, shape.spread);
    k = testing::normal(random, {shape.k_len, shape.head_dim}, dtype);
    v = testing::normal(random, {shape.k_len, shape.value_dim}, dtype);
    if (shape.causal) options.mask = Mask::causal();
    exact = reference::attention(q, k, v, options);
    largest_value = testing::largest(v);
    if (dtype == Dtype::f64) return;
    const Tensor weights = testing::plain_weights(convert(q, Dtype::f32), convert(k, Dtype::f32), shape.causal);
    const Tensor values = convert(v, Dtype::f32);
    Tensor plain = Tensor::zeros({shape.q_len, shape.value_dim});
    for (std::int64_t at = 0; at < weights.element_count(); ++at) {
      float* out = plain.data<float>() + at / shape.k_len * shape.value_dim;
      const float weight = weights.data<float>()[at], *value = testing::row(values, at % shape.k_len);
      for (std::int64_t c = 0; c < shape.value_dim; ++c) out[c] += weight * value[c];
    }
    plain_error = testing::difference(plain, exact.out);
  }
  Tensor q, k, v;
  AttentionOptions options;
  reference::AttentionResult exact;
  double largest_value, plain_error = 0;  // of plain float loops
};

QKV_ON_EACH_TARGET(AttentionAccuracy);

TEST_P(AttentionAccuracy, FloatStaysWithinTwiceThePlainError) {
  for (const testing::PlainShape& shape : kShapes) {
    SCOPED_TRACE(describe(shape));
    const DrawnHead head(1, shape, Dtype::f32);
    const testing::Outcome outcome = testing::attend(head.q, head.k, head.v, head.options);
    const double error = testing::difference(outcome.out, head.exact.out);
    EXPECT_LE(error, 2 * head.plain_error + kEpsilon * head.largest_value);
    ASSERT_LE(testing::largest(head.exact.logits), 88);
    EXPECT_LE(error, 4e-6 * head.largest_value);
    for (std::int64_t i = 0; i < shape.q_len; ++i) {
      double sum = 0;
      for (const double weight : testing::values(outcome.weights.view().select(0, i))) sum += weight;
      EXPECT_NEAR(sum, 1, 8 * kEpsilon);
    }
  }
}

TEST_P(AttentionAccuracy, DoubleIsDouble) {
  for (const testing::PlainShape& shape : kShapes) {
    const DrawnHead head(2, shape, Dtype::f64);
    const testing::Outcome outcome = testing::attend(head.q, head.k, head.v, head.options);
    // The cap of float, scaled by the ratio of the two epsilons, twice: the reference rounds as well.
    const double tolerance = 2 * 4e-6 * 0x1p-29;
    EXPECT_LE(testing::difference(outcome.out, head.exact.out), tolerance * head.largest_value);
    EXPECT_LE(testing::difference(outcome.log_sum_exp, head.exact.log_sum_exp),
              tolerance * std::max(1.0, testing::largest(head.exact.log_sum_exp)));
  }
}

// 16-bit patterns as integers in the order of their values.
int ordered(std::uint16_t bits) { return bits & 0x8000 ? -(bits & 0x7fff) : bits; }

TEST_P(AttentionAccuracy, SixteenBitsWithinOneUnit) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    std::int64_t elements = 0, beyond_one = 0;
    for (const testing::PlainShape& shape : kShapes) {
      const DrawnHead head(3, shape, dtype);
      const Tensor rounded = convert(head.exact.out, dtype), out = attention(head.q, head.k, head.v, head.options);
      const auto bits = [](const Tensor& tensor, std::int64_t i) {
        return ordered(reinterpret_cast<const std::uint16_t*>(tensor.view().bytes())[i]);
      };
      const std::vector<double> got = testing::values(out), wanted = testing::values(rounded);
      for (std::int64_t i = 0; i < out.element_count(); ++i) {
        const int units = std::abs(bits(out, i) - bits(rounded, i));
        ++elements;
        beyond_one += units > 1;
        const auto at = static_cast<std::size_t>(i);
        if (units > 2) {
          ASSERT_LE(std::abs(got[at] - wanted[at]), 0x1p-9 * head.largest_value);
        }
      }
      // Into float the result is as good as from float inputs.
      Tensor wide = Tensor::zeros(out.shape());
      attention(head.q, head.k, head.v, wide, head.options);
      EXPECT_LE(testing::difference(wide, head.exact.out), 2 * head.plain_error + kEpsilon * head.largest_value);
    }
    EXPECT_LE(static_cast<double>(beyond_one), 0.001 * static_cast<double>(elements)) << name_of(dtype);
  }
}

}  // namespace
}  // namespace qkv
