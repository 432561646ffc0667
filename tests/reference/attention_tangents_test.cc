// The specifications of forward-mode derivative and double backward against finite differences of those of attention
// and of its gradients.

#include "attention/tangent/attention_tangents_testing.h"
#include "jacobian.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::MovingArrays;
using testing::normal;

// What stands still: masks, biases, sinks. 4 query heads over 2 key/value heads, sizes 5 and 3.
struct Options {
  Tensor slopes = Tensor::of<float>({4}, {0.1f, 0.5f, 0, 1}), sinks = Tensor::of<double>({4}, {0.5, -1, 2, 0});
  Tensor lengths = Tensor::of<std::int32_t>({2}, {6, 0});
  std::vector<AttentionOptions> all() const {
    return {{},
            {.scale = -0.7},
            {.score = Score::dot()},
            {.mask = Mask::causal()},
            {.mask = Mask::causal(Align::bottom_right) & Mask::lengths(lengths)},
            {.mask = Mask::window(2, 1), .bias = Bias::alibi(slopes), .sinks = sinks}};
  }
};

MovingArrays moving() { return {{2, 4, 5, 5}, {2, 2, 7, 5}, 3, Dtype::f64}; }

// x + step * tangent
Tensor moved(const Tensor& x, const Tensor& tangent, double step) {
  Tensor result = x;
  for (std::int64_t i = 0; i < x.element_count(); ++i) result.data<double>()[i] += step * tangent.data<double>()[i];
  return result;
}

TEST(ReferenceAttentionTangents, JvpIsTheSlopeAlongTheTangents) {
  const Options options;
  for (const AttentionOptions& own : options.all()) {
    const MovingArrays a = moving();
    const auto at = [&](double step) {
      return reference::attention(moved(a.q, a.tq, step), moved(a.k, a.tk, step), moved(a.v, a.tv, step), own);
    };
    constexpr double kStep = 1e-5;
    const reference::AttentionResult above = at(kStep), below = at(-kStep);
    const reference::OutputTangents given = reference::attention_jvp(a.q, a.k, a.v, a.tangents(), own);
    const auto expect_slope = [](const Tensor& up, const Tensor& down, const Tensor& tangent) {
      const std::vector<double> x = testing::values(up), y = testing::values(down), wanted = testing::values(tangent);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double slope = x[i] == y[i] ? 0 : (x[i] - y[i]) / (2 * kStep);  // also of -infinity
        ASSERT_NEAR(slope, wanted[i], 1e-8 * std::max(1.0, std::abs(wanted[i]))) << "element " << i;
      }
    };
    expect_slope(above.out, below.out, given.out);
    expect_slope(above.log_sum_exp, below.log_sum_exp, given.log_sum_exp);
  }
}

// Gradients of the gradients, element by element.
TEST(ReferenceAttentionTangents, DoubleBackwardIsTheGradientOfTheGradients) {
  const Options options;
  for (const AttentionOptions& own : options.all()) {
    MovingArrays a = moving();
    const auto loss = [&] {
      const reference::AttentionGradients first = reference::attention_backward(a.q, a.k, a.v, a.grad_out, own);
      return testing::dot(a.tq, first.query) + testing::dot(a.tk, first.key) + testing::dot(a.tv, first.value);
    };
    const reference::SecondGradients given =
        reference::attention_double_backward(a.q, a.k, a.v, a.grad_out, a.tangents(), own);
    testing::expect_gradient(loss, a.q, given.query);
    testing::expect_gradient(loss, a.k, given.key);
    testing::expect_gradient(loss, a.v, given.value);
    testing::expect_gradient(loss, a.grad_out, given.grad_out);
  }
}

TEST(ReferenceAttentionTangents, WorkedByHand) {
  // Two keys of equal logit, weights 1/2. The tangent of the query moves logits by 2 and 4, mean 3, so that the weights
  // move by -1/2 and 1/2, and the output by (3 - 1) / 2.
  const Tensor q = Tensor::of<double>({1, 2}, {0, 0}), k = Tensor::of<double>({2, 2}, {2, 0, 4, 0});
  const Tensor v = Tensor::of<double>({2, 1}, {1, 3}), tq = Tensor::of<double>({1, 2}, {1, 0});
  const reference::OutputTangents given = reference::attention_jvp(q, k, v, {.query = tq}, {.score = Score::dot()});
  EXPECT_EQ(testing::values(given.out), (std::vector<double>{1}));
  EXPECT_EQ(testing::values(given.log_sum_exp), (std::vector<double>{3}));
  // With grad_out 1 the loss is that tangent, t (weights' covariance of k and v): its gradient with respect to the
  // values is the movement of the weights; weights and grad_out . v are alike in both keys but for the sign, so that
  // moving the query changes nothing to first order.
  const Tensor one = Tensor::of<double>({1, 1}, {1});
  const reference::SecondGradients second =
      reference::attention_double_backward(q, k, v, one, {.query = tq}, {.score = Score::dot()});
  EXPECT_EQ(testing::values(second.value), (std::vector<double>{-0.5, 0.5}));
  EXPECT_EQ(testing::values(second.query), (std::vector<double>{0, 0}));
  EXPECT_EQ(testing::values(second.key), (std::vector<double>{-0.5, 0, 0.5, 0}));
  EXPECT_EQ(testing::values(second.grad_out), (std::vector<double>{1}));
}

}  // namespace
}  // namespace qkv
