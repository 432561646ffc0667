// Pool1d and Pool2d against plain loops in double, every option crossed; ties, NaN and infinities; refusals.
#include "lab/layers/pooling.h"

#include "lab/layers/plain_convolution.h"
#include "layers/asked_layer.h"

namespace qkv::testing {
namespace {

struct PlainPool {
  std::vector<double> out, grad_x;
};

// Pictures that follow one another; `plain` sees each channel by itself.
PlainPool pool_plainly(const PlainConvolution& plain, PoolKind pooling, const PictureSize& size, std::size_t batch,
                       const std::vector<double>& x, const std::vector<double>& grad_out) {
  PlainPool result{{}, std::vector<double>(x.size())};
  const double taps = static_cast<double>(plain.kernel.height * plain.kernel.width);
  for (std::size_t b = 0; b < batch; ++b) {
    const std::size_t first = b * x.size() / batch, first_out = result.out.size();
    std::vector<double> sums(grad_out.size() / batch);
    std::vector<std::size_t> largest(sums.size(), x.size());  // the first of equal ones
    plain.for_each_product(size, [&](std::int64_t to, std::int64_t, std::int64_t from) {
      const std::size_t o = static_cast<std::size_t>(to), i = first + static_cast<std::size_t>(from);
      sums[o] += x[i];
      if (largest[o] == x.size() || x[i] > x[largest[o]]) largest[o] = i;
      if (pooling == PoolKind::average) result.grad_x[i] += grad_out[first_out + o] / taps;
    });
    for (std::size_t o = 0; o < sums.size(); ++o) {
      result.out.push_back(pooling == PoolKind::max ? x[largest[o]] : sums[o] / taps);
      if (pooling == PoolKind::max) result.grad_x[largest[o]] += grad_out[first_out + o];
    }
  }
  return result;
}

// Numbers of which many are equal.
void make_ties(Tensor& x) {
  Tensor wide = convert(x, Dtype::f64);
  for (std::int64_t i = 0; i < x.element_count(); ++i)
    wide.data<double>()[i] = std::round(2 * wide.data<double>()[i]) / 2;
  x = convert(wide, x.dtype());
}

void expect_plain_pool(const Pool2dConfig& config, const PictureSize& size, std::int64_t channels, Dtype dtype) {
  const PictureSize stride{config.stride.height == 0 ? config.kernel.height : config.stride.height,
                           config.stride.width == 0 ? config.kernel.width : config.stride.width};
  const PlainConvolution plain{.in = channels,
                               .out = channels,
                               .groups = channels,
                               .kernel = config.kernel,
                               .stride = stride,
                               .before = config.padding,
                               .after = config.padding};
  PlainAsked<PoolLayer<Pool2d>> asked(config, Dims{size.height, size.width, channels},
                                      {.dtype = dtype, .lengths = {2}});
  Tensor& x = asked.inputs[0];
  make_ties(x);
  const Training done(asked, 0);
  EXPECT_EQ(asked.layer.out_size(size), plain.out_size(size));
  const PlainPool wanted = pool_plainly(plain, config.pooling, size, 2, values(x), values(done.grad_out[0]));
  expect_near(done.out[0], wanted.out);
  expect_near(done.grad_in[0], wanted.grad_x);
  if (size.height != 1 || config.kernel.height != 1) return;
  // The same as a sequence.
  const Pool1d line({.pooling = config.pooling,
                     .kernel = config.kernel.width,
                     .stride = config.stride.width,
                     .padding = config.padding.width});
  const Tensor row = line.forward(Sequences(x.view().reshape({2, size.width, channels})));
  EXPECT_TRUE(same_bits(row, done.out[0].view().reshape({2, line.out_length(size.width), channels})));
}

TEST(Pooling, EveryOption) {
  Random random(1);
  const auto expect = [&](std::int64_t height, std::int64_t width, std::int64_t stride, std::int64_t padding) {
    for (const PoolKind pooling : {PoolKind::max, PoolKind::average}) {
      const Pool2dConfig config{.pooling = pooling,
                                .kernel = {height, width},
                                .stride = {stride, stride},
                                .padding = {std::min(padding, height / 2), std::min(padding, width / 2)}};
      for (const PictureSize& size : {PictureSize{0, 4}, {1, 1}, {4, 3}, {5, 12}}) {
        expect_plain_pool(config, size, random.below(10) == 0 ? 130 : 3,
                          random.below(2) == 0 ? Dtype::f32 : Dtype::f64);
      }
    }
  };
  for_all(expect, List{1, 2, 3}, List{1, 2, 5}, List{0, 1, 2, 7}, List{0, 1, 2});
}

TEST(Pooling, SizesOfOutputs) {
  EXPECT_EQ(Pool2d({.kernel = {2, 3}, .stride = {1, 2}}).out_size({4, 9}), (PictureSize{3, 4}));
  const Tensor offsets = offsets_of(std::vector<std::int64_t>{4, 0, 1, 9});
  EXPECT_TRUE(same_bits(Pool1d({.kernel = 3, .stride = 2, .padding = 1}).out_offsets(offsets),
                        Tensor::of<std::int32_t>({5}, {0, 2, 2, 3, 8})));
}

// As torch: NaN is what a window with one gives, and receives its gradient; of infinities the largest counts.
TEST(Pooling, NanAndInfinity) {
  const auto inf = static_cast<float>(kInfinity), nan = static_cast<float>(kNan);
  const Tensor x = Tensor::of<float>({1, 6, 1}, {-inf, -inf, 1, nan, nan, 7});
  const Pool1d pool({.kernel = 2});
  const Tensor out = pool.forward(x);
  EXPECT_EQ(out.data<float>()[0], -inf);
  EXPECT_TRUE(std::isnan(out.data<float>()[1]));
  EXPECT_TRUE(std::isnan(out.data<float>()[2]));
  Tensor grad_x = Tensor::zeros(x.shape());
  pool.backward(x, Tensor::of<float>({1, 3, 1}, {1, 2, 3}), grad_x);
  EXPECT_TRUE(same_bits(grad_x, Tensor::of<float>({1, 6, 1}, {1, 0, 0, 2, 3, 0})));
}

TEST(Pooling, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Pool1d({.kernel = 0}), std::invalid_argument);
  EXPECT_THROW(Pool1d({.kernel = 2, .stride = -1}), std::invalid_argument);
  EXPECT_THROW(Pool1d({.kernel = 3, .padding = 2}), std::invalid_argument);
  EXPECT_THROW(Pool2d({.kernel = {2, 2}, .padding = {0, -1}}), std::invalid_argument);
  const Pool2d pool({.kernel = {2, 2}});
  EXPECT_THROW(pool.forward(Tensor::zeros({})), std::invalid_argument);
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
}  // namespace qkv::testing
