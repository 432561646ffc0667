// The specification of the gradients against finite differences of the specification of attention, for every option.

#include "attention/attention_testing.h"
#include "jacobian.h"
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

// The tensors behind the views of the options.
struct Parameters {
  std::vector<Tensor*> biases{};
  Tensor *w_query = nullptr, *w_key = nullptr, *v = nullptr;
};

double loss_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& grad_out,
               const AttentionOptions& options) {
  const std::vector<double> out = testing::values(reference::attention(q, k, v, options).out);
  const std::vector<double> grad = testing::values(grad_out);
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * grad[i];
  return sum;
}

void expect_gradients(Arrays arrays, const AttentionOptions& options, const Parameters& parameters = {}) {
  auto& [q, k, v, grad_out] = arrays;
  const auto loss = [&] { return loss_of(q, k, v, grad_out, options); };
  const reference::AttentionGradients given = reference::attention_backward(q, k, v, grad_out, options);
  testing::expect_gradient(loss, q, given.query);
  testing::expect_gradient(loss, k, given.key);
  testing::expect_gradient(loss, v, given.value);
  for (std::size_t n = 0; n < parameters.biases.size(); ++n) {
    testing::expect_gradient(loss, *parameters.biases[n], given.bias[n]);
  }
  if (parameters.w_query != nullptr) testing::expect_gradient(loss, *parameters.w_query, given.score.w_query);
  if (parameters.w_key != nullptr) testing::expect_gradient(loss, *parameters.w_key, given.score.w_key);
  if (parameters.v != nullptr) testing::expect_gradient(loss, *parameters.v, given.score.v);
}

TEST(ReferenceAttentionBackward, ParametersOfBiasAndSinks) {
  auto [q, k, v, grad_out] = padded();
  Random random(4);
  Tensor clipped = normal(random, {5, 4}, Dtype::f64), t5 = normal(random, {8, 4}, Dtype::f64);
  Tensor swin = normal(random, {45, 4}, Dtype::f64), sinks = normal(random, {4}, Dtype::f64);
  Tensor of_heads = normal(random, {4}, Dtype::f64), of_all = normal(random, {2, 4}, Dtype::f64);
  const AttentionOptions options{
      .mask = Mask::window(3, 2, Align::top_left),
      .bias = Bias::table(RelativeTable::clipped(clipped)) + Bias::table(RelativeTable::t5(t5, {.max_distance = 5})) +
              Bias::table(RelativeTable::swin(swin, 3, 5)) + Bias::alibi(of_heads) + Bias::alibi(of_all),
      .soft_cap = 2,
      .sinks = sinks};
  const auto loss = [&] { return loss_of(q, k, v, grad_out, options); };
  const reference::AttentionGradients given = reference::attention_backward(q, k, v, grad_out, options);
  testing::expect_gradient(loss, clipped, given.tables[0]);
  testing::expect_gradient(loss, t5, given.tables[1]);
  testing::expect_gradient(loss, swin, given.tables[2]);
  testing::expect_gradient(loss, of_heads, given.alibi_slopes[0]);
  testing::expect_gradient(loss, of_all, given.alibi_slopes[1]);
  testing::expect_gradient(loss, sinks, given.sinks);
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

TEST(ReferenceAttentionBackward, BiasesOfEveryBroadcastShape) {
  for (int shape = 0; shape < 16; ++shape) {
    SCOPED_TRACE(shape);
    Random random(4);
    const auto extent = [&](int dim, std::int64_t whole) { return (shape >> dim & 1) != 0 ? 1 : whole; };
    Tensor bias = normal(random, {extent(0, 2), extent(1, 4), extent(2, 5), extent(3, 7)}, Dtype::f64);
    Tensor row = normal(random, {7}, Dtype::f64);
    const AttentionOptions options{.mask = Mask::window(3, 2),
                                   .bias = Bias::view(bias) + Bias::view(row),
                                   .soft_cap = 2,
                                   .dropout = {.p = 0.2, .seed = 3}};
    expect_gradients(padded(), options, {.biases = {&bias, &row}});
  }
}

// Keys of another size than queries.
TEST(ReferenceAttentionBackward, OtherScores) {
  Random random(5);
  Tensor w_query = normal(random, {3, 5}, Dtype::f64), w_key = normal(random, {3, 4}, Dtype::f64);
  Tensor joined = normal(random, {3, 9}, Dtype::f64), factors = normal(random, {3}, Dtype::f64);
  Tensor middle = normal(random, {5, 4}, Dtype::f64);
  Arrays arrays = padded();
  arrays.k = normal(random, {2, 2, 7, 4}, Dtype::f64);
  for (const double cap : {0.0, 2.0}) {
    AttentionOptions options{.mask = Mask::window(3, 2), .scale = 0.8, .soft_cap = cap};
    options.score = Score::additive(w_query, w_key, factors);
    expect_gradients(arrays, options, {.w_query = &w_query, .w_key = &w_key, .v = &factors});
    options.score = Score::concat(joined, factors);
    expect_gradients(arrays, options, {.w_query = &joined, .v = &factors});
    options.score = Score::bilinear(middle);
    expect_gradients(arrays, options, {.w_query = &middle});
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
