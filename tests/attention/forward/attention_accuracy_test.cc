// How far the kernel may be from the double reference: never more than twice as far as plain loops in float, never
// beyond an absolute cap, and 16-bit results within a unit in the last place of the exact ones.
#include <bit>

#include "attention/attention_testing.h"
#include "attention/plain_float.h"
#include "reference/attention.h"

namespace qkv {
namespace {

constexpr double kEpsilon = 0x1p-23;  // of float

// The obvious float computation over matrices [length, size]: every product, sum and exponential rounded to float.
Tensor plain_float(const Tensor& q, const Tensor& k, const Tensor& v, float scale, bool causal) {
  const std::int64_t q_len = q.size(0), k_len = k.size(0), head_dim = q.size(1), value_dim = v.size(1);
  Tensor out = Tensor::zeros({q_len, value_dim});
  for (std::int64_t i = 0; i < q_len; ++i) {
    std::vector<float> weights;
    float maximum = -std::numeric_limits<float>::infinity();
    for (std::int64_t j = 0; j < k_len && (!causal || j <= i); ++j) {
      weights.push_back(testing::dot(testing::row(q, i), testing::row(k, j), head_dim) * scale);
      maximum = std::max(maximum, weights.back());
    }
    float sum = 0;
    for (float& weight : weights) sum += weight = std::exp(weight - maximum);
    for (std::size_t j = 0; j < weights.size(); ++j) {
      for (std::int64_t c = 0; c < value_dim; ++c) {
        out.data<float>()[i * value_dim + c] +=
            weights[j] / sum * v.data<float>()[static_cast<std::int64_t>(j) * value_dim + c];
      }
    }
  }
  return out;
}

constexpr testing::PlainShape kShapes[] = {{48, 128, 64, 64, 1},        {1, 1000, 64, 64, 1},   {20, 1023, 128, 96, 4},
                                           {300, 300, 32, 32, 1, true}, {9, 129, 256, 8, 16},   {17, 65, 1, 3, 8},
                                           {7, 500, 1024, 1024, 1},     {12, 4096, 64, 32, 15}, {2, 3000, 80, 80, 4}};

QKV_ON_EACH_TARGET(AttentionAccuracy);

TEST_P(AttentionAccuracy, FloatStaysWithinTwiceThePlainError) {
  for (const testing::PlainShape& shape : kShapes) {
    SCOPED_TRACE(describe(shape));
    Random random(1);
    const Tensor q = testing::normal(random, {shape.q_len, shape.head_dim}, Dtype::f32, shape.spread);
    const Tensor k = testing::normal(random, {shape.k_len, shape.head_dim});
    const Tensor v = testing::normal(random, {shape.k_len, shape.value_dim});
    const AttentionOptions options{.mask = shape.causal ? Mask::causal() : Mask()};
    const reference::AttentionResult exact = reference::attention(q, k, v, options);
    const testing::Outcome outcome = testing::attend(q, k, v, options);
    const float scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    const double plain_error = testing::difference(plain_float(q, k, v, scale, shape.causal), exact.out);
    const double error = testing::difference(outcome.out, exact.out), largest_value = testing::largest(v);

    EXPECT_LE(error, 2 * plain_error + kEpsilon * largest_value);
    ASSERT_LE(testing::largest(exact.logits), 88);
    EXPECT_LE(error, 4e-6 * largest_value);
    for (std::int64_t i = 0; i < shape.q_len; ++i) {
      double sum = 0;
      for (const double weight : testing::values(outcome.weights.view().select(0, i))) sum += weight;
      EXPECT_NEAR(sum, 1, 8 * kEpsilon);
    }
  }
}

TEST_P(AttentionAccuracy, DoubleIsDouble) {
  for (const testing::PlainShape& shape : kShapes) {
    Random random(2);
    const Tensor q = testing::normal(random, {shape.q_len, shape.head_dim}, Dtype::f64, shape.spread);
    const Tensor k = testing::normal(random, {shape.k_len, shape.head_dim}, Dtype::f64);
    const Tensor v = testing::normal(random, {shape.k_len, shape.value_dim}, Dtype::f64);
    const AttentionOptions options{.mask = shape.causal ? Mask::causal() : Mask()};
    const reference::AttentionResult exact = reference::attention(q, k, v, options);
    const testing::Outcome outcome = testing::attend(q, k, v, options);
    // The cap of float, scaled by the ratio of the two epsilons, twice: the reference rounds as well.
    const double tolerance = 2 * 4e-6 * 0x1p-29;
    EXPECT_LE(testing::difference(outcome.out, exact.out), tolerance * testing::largest(v));
    EXPECT_LE(testing::difference(outcome.log_sum_exp, exact.log_sum_exp),
              tolerance * std::max(1.0, testing::largest(exact.log_sum_exp)));
  }
}

// 16-bit patterns as integers in the order of their values.
int ordered(std::uint16_t bits) { return bits & 0x8000 ? -(bits & 0x7fff) : bits; }

TEST_P(AttentionAccuracy, SixteenBitsWithinOneUnit) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    std::int64_t elements = 0, beyond_one = 0;
    for (const testing::PlainShape& shape : kShapes) {
      Random random(3);
      const Tensor q = testing::normal(random, {shape.q_len, shape.head_dim}, dtype, shape.spread);
      const Tensor k = testing::normal(random, {shape.k_len, shape.head_dim}, dtype);
      const Tensor v = testing::normal(random, {shape.k_len, shape.value_dim}, dtype);
      const AttentionOptions options{.mask = shape.causal ? Mask::causal() : Mask()};
      const reference::AttentionResult result = reference::attention(q, k, v, options);
      const Tensor& exact = result.out;
      const Tensor rounded = convert(exact, dtype);
      const Tensor out = attention(q, k, v, options);
      const auto bits = [](const Tensor& tensor, std::int64_t i) {
        return ordered(reinterpret_cast<const std::uint16_t*>(tensor.view().bytes())[i]);
      };
      const std::vector<double> got = testing::values(out), wanted = testing::values(rounded);
      const double slack = 0x1p-9 * testing::largest(v);
      for (std::int64_t i = 0; i < out.element_count(); ++i) {
        const int units = std::abs(bits(out, i) - bits(rounded, i));
        ++elements;
        beyond_one += units > 1;
        const auto at = static_cast<std::size_t>(i);
        if (units > 2) {
          ASSERT_LE(std::abs(got[at] - wanted[at]), slack);
        }
      }
      // Into float the result is as good as from float inputs.
      Tensor wide = Tensor::zeros(out.shape());
      attention(q, k, v, wide, options);
      const Tensor plain = plain_float(convert(q, Dtype::f32), convert(k, Dtype::f32), convert(v, Dtype::f32),
                                       1 / std::sqrt(static_cast<float>(shape.head_dim)), shape.causal);
      EXPECT_LE(testing::difference(wide, exact),
                2 * testing::difference(plain, exact) + kEpsilon * testing::largest(v));
    }
    EXPECT_LE(static_cast<double>(beyond_one), 0.001 * static_cast<double>(elements)) << name_of(dtype);
  }
}

}  // namespace
}  // namespace qkv
