// Pool1d and Pool2d against plain loops in double, every option crossed; ties, NaN and infinities; refusals.
#include "qkv/layers/pooling.h"

#include "attention/attention_testing.h"
#include "jacobian.h"

namespace qkv {
namespace {

using testing::normal;
using testing::values;

struct PlainPool {
  std::vector<double> out, grad_x;
};

// One picture after the other; what `size` and `out` say of each.
PlainPool pool_plainly(const Pool2dConfig& config, const PictureSize& stride, std::int64_t batch,
                       const PictureSize& size, const PictureSize& out, std::int64_t channels,
                       const std::vector<double>& x, const std::vector<double>& grad_out) {
  PlainPool result{{}, std::vector<double>(x.size())};
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t oy = 0; oy < out.height; ++oy) {
      for (std::int64_t ox = 0; ox < out.width; ++ox) {
        for (std::int64_t c = 0; c < channels; ++c) {
          const double grad = grad_out[result.out.size()];
          double sum = 0, maximum = -testing::kInfinity;
          std::size_t first = x.size();
          for (std::int64_t ky = 0; ky < config.kernel.height; ++ky) {
            for (std::int64_t kx = 0; kx < config.kernel.width; ++kx) {
              const std::int64_t y = oy * stride.height + ky - config.padding.height;
              const std::int64_t column = ox * stride.width + kx - config.padding.width;
              if (y < 0 || y >= size.height || column < 0 || column >= size.width) continue;
              const auto i = static_cast<std::size_t>(((b * size.height + y) * size.width + column) * channels + c);
              sum += x[i];
              if (first == x.size() || x[i] > maximum) {
                first = i;
                maximum = x[i];
              }
              if (config.pooling == PoolKind::average) {
                result.grad_x[i] += grad / static_cast<double>(config.kernel.height * config.kernel.width);
              }
            }
          }
          if (config.pooling == PoolKind::max) result.grad_x[first] += grad;
          result.out.push_back(config.pooling == PoolKind::max
                                   ? maximum
                                   : sum / static_cast<double>(config.kernel.height * config.kernel.width));
        }
      }
    }
  }
  return result;
}

// Numbers of which many are equal.
Tensor with_ties(Random& random, const Dims& shape, Dtype dtype) {
  Tensor x = normal(random, shape, Dtype::f64);
  for (std::int64_t i = 0; i < x.element_count(); ++i) x.data<double>()[i] = std::round(2 * x.data<double>()[i]) / 2;
  return convert(x, dtype);
}

TEST(Pooling, EveryOption) {
  Random random(1);
  for (const PoolKind pooling : {PoolKind::max, PoolKind::average}) {
    for (const std::int64_t height : {1, 2, 3}) {
      for (const std::int64_t width : {1, 2, 5}) {
        for (const std::int64_t stride : {0, 1, 2, 7}) {
          for (const std::int64_t padding : {0, 1, 2}) {
            const Pool2dConfig config{.pooling = pooling,
                                      .kernel = {height, width},
                                      .stride = {stride, stride},
                                      .padding = {std::min(padding, height / 2), std::min(padding, width / 2)}};
            const PictureSize used{stride == 0 ? height : stride, stride == 0 ? width : stride};
            for (const PictureSize& size : {PictureSize{0, 4}, {1, 1}, {4, 3}, {5, 12}}) {
              const Dtype dtype = random.uniform() < 0.5 ? Dtype::f32 : Dtype::f64;
              const std::int64_t channels = random.uniform() < 0.1 ? 130 : 3;
              const Tensor x = with_ties(random, {2, size.height, size.width, channels}, dtype);
              const Pool2d pool(config);
              const Tensor out = pool.forward(x), grad_out = with_ties(random, out.shape(), dtype);
              const PlainPool wanted =
                  pool_plainly(config, used, 2, size, pool.out_size(size), channels, values(x), values(grad_out));
              Tensor grad_x = Tensor::zeros(x.shape(), dtype);
              pool.backward(x, grad_out, grad_x);
              const double part = dtype == Dtype::f32 ? 1e-5 : 1e-12;
              const Tensor plain_out = Tensor::of(out.shape(), wanted.out);
              const Tensor plain_grad = Tensor::of(x.shape(), wanted.grad_x);
              EXPECT_LE(testing::difference(out, plain_out), part * testing::largest(plain_out));
              EXPECT_LE(testing::difference(grad_x, plain_grad), part * testing::largest(plain_grad));
              if (size.height != 1 || height != 1) continue;
              // The same as a sequence.
              const Pool1d line(
                  {.pooling = pooling, .kernel = width, .stride = stride, .padding = std::min(padding, width / 2)});
              const TensorView rows = x.view().reshape({2, size.width, channels});
              EXPECT_TRUE(testing::same_bits(line.forward(rows),
                                             out.view().reshape({2, line.out_length(size.width), channels})));
            }
          }
        }
      }
    }
  }
}

TEST(Pooling, SumsWrittenOut) {
  const Tensor x = Tensor::of<float>({1, 4, 1}, {1, 5, -2, 3});
  EXPECT_TRUE(testing::same_bits(Pool1d({.kernel = 2}).forward(x), Tensor::of<float>({1, 2, 1}, {5, 3})));
  EXPECT_TRUE(testing::same_bits(Pool1d({.pooling = PoolKind::average, .kernel = 2}).forward(x),
                                 Tensor::of<float>({1, 2, 1}, {3, 0.5f})));
  EXPECT_EQ(Pool2d({.kernel = {2, 3}, .stride = {1, 2}}).out_size({4, 9}), (PictureSize{3, 4}));
}

TEST(Pooling, RaggedIsEachSequenceAlone) {
  Random random(2);
  const Pool1d pool({.kernel = 3, .stride = 2, .padding = 1});
  const std::vector<std::int64_t> lengths{4, 0, 1, 300};
  const Tensor x = normal(random, {305, 2}), offsets = offsets_of(lengths), out = pool.forward({x, offsets}, 2);
  const Tensor out_offsets = pool.out_offsets(offsets);
  std::int64_t begin = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const std::int32_t* cuts = out_offsets.data<std::int32_t>() + b;
    EXPECT_TRUE(testing::same_bits(out.view().slice(0, cuts[0], cuts[1]),
                                   pool.forward(x.view().slice(0, begin, begin + lengths[b]))));
    begin += lengths[b];
  }
}

// As torch: NaN is what a window with one gives, and receives its gradient; of infinities the largest counts.
TEST(Pooling, NanAndInfinity) {
  const auto inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::of<float>({1, 6, 1}, {-inf, -inf, 1, nan, nan, 7});
  const Pool1d pool({.kernel = 2});
  const Tensor out = pool.forward(x);
  EXPECT_EQ(out.data<float>()[0], -inf);
  EXPECT_TRUE(std::isnan(out.data<float>()[1]));
  EXPECT_TRUE(std::isnan(out.data<float>()[2]));
  Tensor grad_x = Tensor::zeros(x.shape());
  pool.backward(x, Tensor::of<float>({1, 3, 1}, {1, 2, 3}), grad_x);
  EXPECT_TRUE(testing::same_bits(grad_x, Tensor::of<float>({1, 6, 1}, {1, 0, 0, 2, 3, 0})));
}

TEST(Pooling, Gradients) {
  Random random(3);
  for (const PoolKind pooling : {PoolKind::max, PoolKind::average}) {
    const Pool2d pool({.pooling = pooling, .kernel = {3, 2}, .stride = {1, 1}, .padding = {1, 0}});
    Tensor x = normal(random, {2, 4, 3, 2}, Dtype::f64);
    const Tensor grad_out = normal(random, pool.forward(x).shape(), Dtype::f64);
    Tensor grad_x = Tensor::zeros(x.shape(), Dtype::f64);
    pool.backward(x, grad_out, grad_x);
    testing::expect_gradient([&] { return testing::dot(pool.forward(x), grad_out); }, x, grad_x);
  }
}

TEST(Pooling, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Pool1d({.kernel = 0}), std::invalid_argument);
  EXPECT_THROW(Pool1d({.kernel = 2, .stride = -1}), std::invalid_argument);
  EXPECT_THROW(Pool1d({.kernel = 3, .padding = 2}), std::invalid_argument);
  EXPECT_THROW(Pool2d({.kernel = {2, 2}, .padding = {0, -1}}), std::invalid_argument);
  const Pool2d pool({.kernel = {2, 2}});
  EXPECT_THROW(pool.forward(Tensor::zeros({4, 4, 1})), std::invalid_argument);
  EXPECT_THROW(pool.forward(Tensor::zeros({1, 4, 4, 0})), std::invalid_argument);
  EXPECT_THROW(pool.forward(Tensor::zeros({1, 4, 4, 1}, Dtype::i32)), std::invalid_argument);
  const Tensor x = Tensor::zeros({1, 4, 4, 1});
  Tensor grad_x = Tensor::zeros({1, 4, 4, 1}), wide = Tensor::zeros({1, 4, 4, 1}, Dtype::f64);
  EXPECT_THROW(pool.backward(x, x, grad_x), std::invalid_argument);
  EXPECT_THROW(pool.backward(x, Tensor::zeros({1, 2, 2, 1}), wide), std::invalid_argument);
  EXPECT_THROW(pool.backward(x, Tensor::zeros({1, 2, 2, 1}), {}), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
