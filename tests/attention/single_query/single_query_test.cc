// Decoding: one query alone gives what the same query gives beside another one, and the same bits however the keys are
// dealt to threads.
#include <fmt/format.h>

#include "attention/attention_expectation.h"
#include "attention/backward/attention_backward_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::normal;

QKV_ON_EACH_TARGET(Decode);

// What is added to the logits of six heads, by name. k_len: of the keys, size: of a head.
std::vector<std::pair<const char*, AttentionOptions>> additions(std::vector<Tensor>& kept, std::int64_t k_len,
                                                                std::int64_t size, Dtype dtype) {
  Random random(9);
  const auto keep = [&](Tensor tensor) -> TensorView { return kept.emplace_back(std::move(tensor)).view(); };
  kept.reserve(8);
  const auto add = [](const RelativeTable& table) { return AttentionOptions{.bias = Bias::table(table)}; };
  const TensorView slopes = keep(Tensor::of<float>({6}, {0, 0.1f, 0.003f, -0.0f, 0.5f, 0}));
  return {{"nothing", {}},
          {"soft cap", {.soft_cap = 30}},
          {"bias", {.bias = Bias::view(keep(normal(random, {6, 2, k_len}, dtype)))}},
          {"ALiBi", {.bias = Bias::alibi(slopes)}},
          {"clipped table", add(RelativeTable::clipped(keep(normal(random, {81, 6}, dtype))))},
          {"T5's table", add(RelativeTable::t5(keep(normal(random, {32, 6}, dtype)), {}))},
          {"Shaw's table", add(RelativeTable::shaw(keep(normal(random, {81, size}, dtype, 0.1))))},
          {"sinks", {.sinks = keep(Tensor::of<float>({6}, {0, 3, -3, 40, -40, -1e30f}))}}};
}

// The last query of a bottom-right mask sees the same keys alone as with others before it.
TEST_P(Decode, EqualsPrefill) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t k_len : {2, 15, 1023, 1025, 3000}) {
      for (const std::int64_t size : {5, 64, 80}) {
        Random random(7);
        const Tensor q = normal(random, {6, 2, size}, dtype);
        const Tensor k = normal(random, {2, k_len, size}, dtype), v = normal(random, {2, k_len, size + 3}, dtype);
        std::vector<Tensor> kept;
        for (auto& [name, options] : additions(kept, k_len, size, dtype)) {
          SCOPED_TRACE(std::string(name) + ", " + std::to_string(k_len) + " x " + std::to_string(size));
          options.mask = Mask::causal(Align::bottom_right) & Mask::window(2000, 0);
          const testing::Outcome prefill = testing::attend(q, k, v, options);
          AttentionOptions last = options;
          if (!options.bias.views().empty()) last.bias = Bias::view(options.bias.views()[0].slice(1, 1, 2));
          const testing::Outcome decode = testing::attend(q.view().slice(1, 1, 2), k, v, last);
          // 4 units in the last place of the largest weight, which is 1, and of the largest value.
          const double units = 4 * (dtype == Dtype::f64 ? 0x1p-52 : 0x1p-23);
          EXPECT_LE(testing::difference(decode.out, prefill.out.view().slice(1, 1, 2)), units * testing::largest(v));
          EXPECT_LE(testing::difference(decode.weights, prefill.weights.view().slice(1, 1, 2)), units);
          EXPECT_LE(testing::difference(decode.log_sum_exp, prefill.log_sum_exp.view().slice(1, 1, 2)),
                    units * testing::largest(prefill.log_sum_exp));
        }
      }
    }
  }
}

// Heads of a group, some of which have a slope of 0: forward and backward, each as the reference says, and with the
// bits that the head has alone.
TEST_P(Decode, HeadsOfAGroupMayDifferInTheirSlopes) {
  const std::vector<float> numbers = {0, 0.1f, -0.0f, 0.02f, 0, 0.3f};
  const Tensor slopes = Tensor::of({6}, numbers), sinks = Tensor::of<float>({6}, {0, 1, 2, 0, -1e30f, -2});
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    for (const std::int64_t k_len : {1, 40, 1030, 2100}) {
      for (const std::int64_t q_len : {1, 3}) {
        Random random(11);
        const Tensor q = normal(random, {6, q_len, 16}, dtype), k = normal(random, {2, k_len, 16}, dtype);
        const Tensor v = normal(random, {2, k_len, 24}, dtype), grad_out = normal(random, {6, q_len, 24}, dtype);
        for (const double scale : {0.25, -0.25}) {
          SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << q_len << " x " << k_len << ", " << scale);
          const AttentionOptions options{.mask = Mask::causal(Align::bottom_right),
                                         .bias = Bias::alibi(slopes),
                                         .scale = scale,
                                         .sinks = scale < 0 ? sinks.view() : TensorView()};
          const testing::Outcome found = testing::attend(q, k, v, options);
          const reference::AttentionResult exact = reference::attention(q, k, v, options);
          // As in the grids: roundings of the logits reach the weights.
          const double unit = dtype == Dtype::f64 ? 0x1p-29 : 1;
          const double tolerance = unit * (4e-6 + 5e-7 * testing::largest(exact.logits));
          const double stored = testing::rounding(dtype) * testing::largest(v);
          EXPECT_LE(testing::difference(found.out, exact.out), tolerance * testing::largest(v) + stored);
          EXPECT_LE(testing::difference(found.weights, exact.weights), tolerance);
          EXPECT_LE(testing::difference(found.log_sum_exp, exact.log_sum_exp), tolerance);
          EXPECT_LE(testing::difference(found.logits, exact.logits), tolerance);

          const Dtype wide = testing::accumulation_of(dtype);
          const testing::Gradients gradients = testing::backward(q, k, v, grad_out, options, wide, wide);
          const reference::AttentionGradients wanted = reference::attention_backward(q, k, v, grad_out, options);
          const double slope =
              2 * tolerance * testing::longest_row(grad_out) * testing::longest_row(v);  // of a row's logits
          const auto rows = static_cast<double>(3 * q_len);                              // that share a key
          EXPECT_LE(testing::difference(gradients.query, wanted.query), slope * 0.25 * testing::largest(k));
          EXPECT_LE(testing::difference(gradients.key, wanted.key), slope * 0.25 * testing::largest(q) * rows);
          EXPECT_LE(testing::difference(gradients.value, wanted.value), tolerance * testing::largest(grad_out) * rows);
          EXPECT_LE(testing::difference(gradients.alibi_slopes[0], wanted.alibi_slopes[0]),
                    slope * static_cast<double>(q_len * k_len));

          for (std::int64_t h = 0; h < 6; ++h) {
            const auto own = [h](const Tensor& tensor) { return tensor.view().slice(0, h, h + 1); };
            const auto shared = [h](const Tensor& tensor) { return tensor.view().slice(0, h / 3, h / 3 + 1); };
            AttentionOptions alone = options;
            alone.bias = Bias::alibi(own(slopes));
            if (options.sinks) alone.sinks = own(sinks);
            const testing::Outcome one = testing::attend(own(q), shared(k), shared(v), alone);
            EXPECT_TRUE(testing::same_bits(own(found.out), one.out)) << h;
            EXPECT_TRUE(testing::same_bits(own(found.log_sum_exp), one.log_sum_exp)) << h;
            EXPECT_TRUE(testing::same_bits(own(found.weights), one.weights)) << h;
            EXPECT_TRUE(testing::same_bits(own(found.logits), one.logits)) << h;
          }
        }
      }
    }
  }
}

// Chunks that are hidden whole say nothing of how large the logits of the others are.
TEST_P(Decode, VeryLowLogitsBehindHiddenChunks) {
  Random random(12);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const Tensor q = testing::filled({2, 1, 4}, 1, dtype), v = normal(random, {1, 3000, 8}, dtype);
    Tensor k = testing::filled({1, 3000, 4}, -500, dtype);
    Tensor visible = testing::filled({1, 3000}, 0, Dtype::u8);
    for (std::int64_t j = 1030; j < 3000; j += 7) visible.data<std::uint8_t>()[j] = 1;
    for (const double cap : {0.0, 1e6}) {
      const AttentionOptions options{.mask = Mask::boolean(visible), .scale = 1, .soft_cap = cap};
      const testing::Outcome found = testing::attend(q, k, v, options);
      const reference::AttentionResult exact = reference::attention(q, k, v, options);  // logits of -2000
      EXPECT_LE(testing::difference(found.out, exact.out), 4e-6 * testing::largest(v)) << cap;
      EXPECT_LE(testing::difference(found.log_sum_exp, exact.log_sum_exp), 2000 * 0x1p-22) << cap;
    }
  }
}

// A product that overflows is capped like any other: logits of -2 or 2 beside one of 0, and a hidden key.
TEST_P(Decode, AnInfiniteProductIsCapped) {
  const Tensor values = Tensor::of<float>({1, 3, 1}, {1, 0, testing::kNan});
  const Tensor visible = Tensor::of<std::uint8_t>({1, 3}, {1, 1, 0});
  const AttentionOptions options{.mask = Mask::boolean(visible), .scale = 1, .soft_cap = 2};
  for (const float key : {-3e38f, 3e38f, -HUGE_VALF, HUGE_VALF}) {
    const Tensor keys = Tensor::of<float>({1, 3, 1}, {key, 0, testing::kNan});
    for (const std::int64_t queries : {1, 3}) {
      const Tensor q = testing::filled({1, queries, 1}, 4);
      const testing::Outcome found = testing::attend(q, keys, values, options);
      const double odds = std::exp(key < 0 ? -2.0 : 2.0);
      const double capped = key < 0 ? -2 : 2;
      for (std::int64_t i = 0; i < queries; ++i) {
        SCOPED_TRACE(fmt::format("key {}, query {} of {}", key, i, queries));
        EXPECT_NEAR(found.out.view().at<float>({0, i, 0}), odds / (1 + odds), 1e-6);
        EXPECT_NEAR(found.log_sum_exp.view().at<float>({0, i}), std::log1p(odds), 1e-6);
        const std::vector<double> weights = testing::values(found.weights.view().select(0, 0).select(0, i));
        EXPECT_NEAR(weights[0], odds / (1 + odds), 1e-6);
        EXPECT_NEAR(weights[1], 1 / (1 + odds), 1e-6);
        EXPECT_EQ(weights[2], 0);
        EXPECT_EQ(testing::values(found.logits.view().select(0, 0).select(0, i)),
                  std::vector<double>({capped, 0, -testing::kInfinity}));
      }
      // The cap is flat there: what the loss tells the weight goes to the other key alone, from 0 and by its slope
      // of 1.
      if (std::isinf(key)) continue;
      const Tensor grad_out = testing::filled({1, queries, 1}, 1);
      const testing::Gradients gradients = testing::backward(q, keys, values, grad_out, options);
      const double of_other = -odds / (1 + odds) / (1 + odds) * 4 * static_cast<double>(queries);
      EXPECT_EQ(gradients.key.view().at<float>({0, 0, 0}), 0);
      EXPECT_NEAR(gradients.key.view().at<float>({0, 1, 0}), of_other, 1e-5);
      for (const double gradient : testing::values(gradients.query)) EXPECT_EQ(gradient, 0);
    }
  }
}

TEST_P(Decode, ThreadsAndBatchChangeNoBit) {
  Random random(8);
  const Tensor q = normal(random, {3, 8, 1, 64});
  const Tensor k = normal(random, {3, 2, 5000, 64}), v = normal(random, {3, 2, 5000, 48});
  const testing::Outcome one = testing::attend(q, k, v, {.threads = 1});
  for (const int threads : {2, 3, 4, 7, 16}) {
    const testing::Outcome many = testing::attend(q, k, v, {.threads = threads});
    EXPECT_TRUE(testing::same_bits(many.out, one.out)) << threads;
    EXPECT_TRUE(testing::same_bits(many.log_sum_exp, one.log_sum_exp)) << threads;
  }
  for (std::int64_t b = 0; b < 3; ++b) {
    const auto part = [b](const Tensor& tensor) { return tensor.view().slice(0, b, b + 1); };
    EXPECT_TRUE(testing::same_bits(testing::attend(part(q), part(k), part(v)).out, part(one.out))) << b;
  }
}

}  // namespace
}  // namespace qkv
