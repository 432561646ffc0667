// What a mask hides has gradients of exactly zero, and reaches no other gradient, whatever it holds.
#include "attention/backward/attention_backward_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::backward;
using testing::expect_zeros;
using testing::Gradients;
using testing::kInfinity;
using testing::kNan;
using testing::normal;
using testing::put;

struct Arrays {
  explicit Arrays(Dtype dtype) {
    Random random(1);
    q = normal(random, {2, 2, 30, 16}, dtype), k = normal(random, {2, 1, 140, 16}, dtype);
    v = normal(random, {2, 1, 140, 24}, dtype), grad_out = normal(random, {2, 2, 30, 24}, dtype);
  }
  Gradients gradients(const AttentionOptions& options) const { return backward(q, k, v, grad_out, options); }
  Tensor q, k, v, grad_out;
};

// Keys 0, 70 and 139 are hidden from everybody, keys 3 and 90 from half of the queries, query 11 sees nothing.
Tensor holes() {
  Tensor visible = testing::filled({30, 140}, 1, Dtype::u8);
  const auto at = [&](std::int64_t i, std::int64_t j) -> std::uint8_t& {
    return visible.view().at<std::uint8_t>({i, j});
  };
  for (std::int64_t i = 0; i < 30; ++i) {
    for (const std::int64_t j : {0, 70, 139}) at(i, j) = 0;
    if (i % 2 == 0) at(i, 3) = at(i, 90) = 0;
  }
  for (std::int64_t j = 0; j < 140; ++j) at(11, j) = 0;
  return visible;
}

QKV_ON_EACH_TARGET(AttentionBackwardMasked);

// Nor does a row of Shaw's table reach a query that sees no pair of its distance, or a score's parameter a row without
// keys or a hidden key.
TEST_P(AttentionBackwardMasked, ParametersReachNoHiddenPair) {
  const Mask mask = Mask::window(3, 3);
  const Arrays arrays(Dtype::f32);
  Random random(5);
  Tensor table = normal(random, {21, 16}, Dtype::f32, 0.1);
  const auto shaw = [&] { return arrays.gradients({.mask = mask, .bias = Bias::shaw(table)}); };
  const Gradients wanted = shaw();
  put(table, {20, 3}, kNan);  // ten keys ahead
  testing::expect_same(wanted, shaw());

  const Tensor visible = holes();
  for (const bool is_bilinear : {true, false}) {
    Tensor w = normal(random, {16, 16}), w_key = normal(random, {16, 16}), factors = normal(random, {16});
    for (Tensor* parameter : {&w, &w_key, &factors}) {
      put(*parameter, parameter == &factors ? Dims{2} : Dims{2, 2}, kNan);
      const Gradients gradients =
          arrays.gradients({.mask = Mask::boolean(visible),
                            .score = is_bilinear ? Score::bilinear(w) : Score::additive(w, w_key, factors)});
      expect_zeros(gradients.query.view().select(2, 11));
      for (const std::int64_t j : {0, 70, 139}) expect_zeros(gradients.key.view().select(2, j));
      if (is_bilinear) break;
    }
  }
}

// An additive bias of -infinity is arithmetic, not a mask, but a row of it has no keys either.
TEST_P(AttentionBackwardMasked, RowsOfInfiniteBias) {
  Tensor bias = testing::filled({30, 140}, 0);
  for (std::int64_t j = 0; j < 140; ++j) bias.view().at<float>({4, j}) = -static_cast<float>(kInfinity);
  for (std::int64_t i = 0; i < 30; ++i) bias.view().at<float>({i, 8}) = -static_cast<float>(kInfinity);
  const AttentionOptions options{.bias = Bias::view(bias)};
  const Gradients gradients = Arrays(Dtype::f32).gradients(options);
  expect_zeros(gradients.query.view().select(2, 4));
  expect_zeros(gradients.key.view().select(2, 8));
  expect_zeros(gradients.value.view().select(2, 8));
  EXPECT_GT(testing::largest(gradients.query), 0.01);
  Arrays poisoned(Dtype::f32);
  put(poisoned.grad_out, {0, 1, 4, 3}, kNan);
  testing::expect_same(gradients, poisoned.gradients(options));
}

}  // namespace
}  // namespace qkv
