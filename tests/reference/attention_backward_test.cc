// The specification of the gradients against finite differences of the specification of attention, for every option.
#include "reference/attention_backward.h"

#include "jacobian.h"
#include "kernels/attention_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::normal;

struct Arrays {
  Tensor q, k, v, grad_out;
};

// 4 query heads over 2 key/value heads, sizes 5 and 3.
Arrays padded() {
  Random random(1);
  return {normal(random, {2, 4, 5, 5}, Dtype::f64), normal(random, {2, 2, 7, 5}, Dtype::f64),
          normal(random, {2, 2, 7, 3}, Dtype::f64), normal(random, {2, 4, 5, 3}, Dtype::f64)};
}

void expect_gradients(Arrays arrays, const AttentionOptions& options) {
  auto& [q, k, v, grad_out] = arrays;
  const auto loss = [&] {
    const std::vector<double> out = testing::values(reference::attention(q, k, v, options).out);
    const std::vector<double> grad = testing::values(grad_out);
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * grad[i];
    return sum;
  };
  const reference::AttentionGradients given = reference::attention_backward(q, k, v, grad_out, options);
  testing::expect_gradient(loss, q, given.query);
  testing::expect_gradient(loss, k, given.key);
  testing::expect_gradient(loss, v, given.value);
}

TEST(ReferenceAttentionBackward, EveryOption) {
  const Tensor slopes = Tensor::of<float>({4}, {0.1f, 0.5f, 0, 1});
  const Tensor lengths = Tensor::of<std::int32_t>({2}, {6, 0});
  Random random(2);
  const Tensor bias = normal(random, {2, 1, 5, 7}, Dtype::f64), visible = testing::coin_flips(random, {4, 5, 7}, 0.4);
  const AttentionOptions cases[] = {
      {},
      {.scale = -0.7},
      {.score = Score::dot()},
      {.soft_cap = 1.5},
      {.mask = Mask::causal()},
      {.mask = Mask::causal(Align::bottom_right)},
      {.mask = Mask::window(2, 1)},
      {.mask = Mask::lengths(lengths)},
      {.mask = Mask::boolean(visible)},
      {.bias = Bias::view(bias)},
      {.bias = Bias::alibi(slopes)},
      {.dropout = {.p = 0.3, .seed = 1}},
      {.mask = Mask::boolean(visible) & Mask::causal(Align::bottom_right),
       .bias = Bias::view(bias) + Bias::alibi(slopes),
       .scale = 0.9,
       .soft_cap = 2,
       .dropout = {.p = 0.2, .seed = 2}},
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE(i);
    expect_gradients(padded(), cases[i]);
  }
}

TEST(ReferenceAttentionBackward, Packed) {
  Random random(3);
  const Tensor q_offsets = Tensor::of<std::int32_t>({4}, {0, 3, 3, 5}),
               k_offsets = Tensor::of<std::int64_t>({4}, {0, 4, 6, 9});
  const Arrays arrays{normal(random, {5, 2, 3}, Dtype::f64), normal(random, {9, 1, 3}, Dtype::f64),
                      normal(random, {9, 1, 4}, Dtype::f64), normal(random, {5, 2, 4}, Dtype::f64)};
  for (const Mask& mask : {Mask(), Mask::causal(Align::bottom_right)}) {
    expect_gradients(arrays,
                     {.mask = mask, .dropout = {.p = 0.4}, .offsets_query = q_offsets, .offsets_key = k_offsets});
  }
}

TEST(ReferenceAttentionBackward, WorkedByHand) {
  // Two keys of equal score: weights 1/2, 1/2; grad_out . values = 1, 3; logits' gradients 1/2 (1 - 2), 1/2 (3 - 2).
  const Tensor q = Tensor::of<double>({1, 1}, {2}), k = Tensor::of<double>({2, 1}, {5, 5});
  const Tensor v = Tensor::of<double>({2, 1}, {1, 3}), grad_out = Tensor::of<double>({1, 1}, {1});
  const reference::AttentionGradients given = reference::attention_backward(q, k, v, grad_out);
  EXPECT_EQ(testing::values(given.query), (std::vector<double>{0}));
  EXPECT_EQ(testing::values(given.key), (std::vector<double>{-1, 1}));
  EXPECT_EQ(testing::values(given.value), (std::vector<double>{0.5, 0.5}));
}

// The helper itself: it finds a gradient that is known, and refuses one that is wrong.
TEST(Jacobian, OfAPolynomial) {
  Tensor x = Tensor::of<double>({2}, {3, -2});
  const auto f = [&] { return x.data<double>()[0] * x.data<double>()[0] * x.data<double>()[1]; };
  testing::expect_gradient(f, x, Tensor::of<double>({2}, {-12, 9}));
  EXPECT_EQ(testing::values(x), (std::vector<double>{3, -2}));
  EXPECT_GT(testing::difference(testing::numeric_gradient(f, x), Tensor::of<double>({2}, {-12, 9.001})), 1e-4);
}

}  // namespace
}  // namespace qkv
