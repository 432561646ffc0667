// Every layer ends where a scope asks it to stop, forward and backward: one question at least for so many multiply-adds
// on one thread as the slowest target does in 50 ms.
#include "attention/attention_testing.h"
#include "qkv/layers/batch_norm.h"
#include "qkv/layers/convolution.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/embedding.h"
#include "qkv/layers/feed_forward.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/layers/layer_norm.h"
#include "qkv/layers/linear.h"
#include "qkv/layers/patch_embedding.h"
#include "qkv/layers/pooling.h"
#include "qkv/layers/recurrent.h"
#include "qkv/layers/transformer.h"
#include "qkv/matmul.h"
#include "qkv/target.h"
#include "stop_for_test.h"

namespace qkv {
namespace {

using test::expect_stops;
using testing::normal;

QKV_ON_EACH_TARGET(LayersStop);

Weights drawn() { return initial_weights(5); }

TEST_P(LayersStop, InProducts) {
  Random random(1);
  const std::int64_t m = 3, k = 50'000, n = 7;  // deep
  const Tensor a = normal(random, {m, k}), b = normal(random, {k, n});
  Tensor out = Tensor::zeros({m, n});
  const PackedMatrix packed(b);
  expect_stops([&] { matmul(a, packed, out, {.threads = 1}); });
  EXPECT_GE(test::questions_of([&] { matmul(a, packed, out, {.threads = 1}); }), k / 8192);
  expect_stops([&] { PackedMatrix(b, 1); });
  Tensor square = Tensor::zeros({n, n});
  const auto transposed = [&] { matmul_transposed(packed, packed, square, {.threads = 1}); };
  expect_stops(transposed);
  EXPECT_GE(test::questions_of(transposed), k / 8192);
  const Tensor wide = normal(random, {300, 1000}), all = normal(random, {1000, 2000});
  Tensor result = Tensor::zeros({300, 2000});
  expect_stops([&] { matmul(wide, PackedMatrix(all, 1), result, {.threads = 1}); }, 300 * 1000.0 * 2000);
}

// Sums of ones count the multiply-adds that are done; vectors of them are what takes the time.
TEST_P(LayersStop, LittleIsDoneBetweenTwoQuestionsOfAProduct) {
  std::int64_t lanes = 1;
  for (const Target& target : targets()) {
    if (target.selected) lanes = target.lanes;
  }
  const std::int64_t m = 300, k = 2 * 8192 + 100, n = 6 * lanes + 1;
  const auto largest = [&](const MutableTensorView& out, const auto& product) {
    return test::largest_gap([&] { product(); },
                             [&] {
                               double done = 0;
                               for (std::int64_t row = 0; row < out.size(0); ++row) {
                                 for (std::int64_t column = 0; column < out.size(1); ++column) {
                                   done += out.data<float>()[row * out.stride(0) + column];
                                 }
                               }
                               return static_cast<std::int64_t>(done) / lanes;
                             });
  };
  const Tensor a = testing::filled({m, k}, 1), b = testing::filled({k, n}, 1);
  for (const WeightStorage storage :
       {WeightStorage::full, WeightStorage::bf16, WeightStorage::int8, WeightStorage::int8_groups}) {
    const PackedMatrix packed(b, 1, storage);
    Tensor out = Tensor::zeros({m, n});
    const std::int64_t gap = largest(out, [&] { matmul(a, packed, out, {.threads = 1}); });
    EXPECT_NEAR(out.data<float>()[m * n - 1], static_cast<double>(k), 1);
    EXPECT_GT(gap, 0);
    EXPECT_LE(gap, kStopWork);
  }
  const PackedMatrix left(testing::filled({k, m}, 1), 1), right(b, 1);
  Tensor out = Tensor::zeros({m, n});
  EXPECT_LE(largest(out, [&] { matmul_transposed(left, right, out, {.threads = 1}); }), kStopWork);
}

// Pieces of the depth give the bits of one.
TEST_P(LayersStop, PiecesOfADeepProductDoNotShow) {
  Random random(2);
  const std::int64_t m = 5, k = 2 * 8192 + 700, n = 50, first = 512 * 20;
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const Tensor a = normal(random, {m, k}, dtype), b = normal(random, {k, n}, dtype),
                 bias = normal(random, {n}, dtype);
    Tensor whole = Tensor::zeros({m, n}, dtype), parts = whole;
    matmul(a, b, whole, {.bias = bias});
    matmul(a.view().slice(1, 0, first), b.view().slice(0, 0, first), parts);
    matmul(a.view().slice(1, first, k), b.view().slice(0, first, k), parts, {.bias = bias, .accumulate = true});
    EXPECT_TRUE(testing::same_bits(whole, parts));
    // And of a transposed one.
    const Tensor left = normal(random, {k, m}, dtype);
    const auto rows_of = [&](const Tensor& matrix, std::int64_t begin, std::int64_t end) {
      return PackedMatrix(matrix.view().slice(0, begin, end));
    };
    matmul_transposed(rows_of(left, 0, k), rows_of(b, 0, k), whole);
    matmul_transposed(rows_of(left, 0, first), rows_of(b, 0, first), parts);
    matmul_transposed(rows_of(left, first, k), rows_of(b, first, k), parts, {.accumulate = true});
    EXPECT_TRUE(testing::same_bits(whole, parts));
  }
}

TEST_P(LayersStop, InLayersOfRows) {
  Random random(3);
  const std::int64_t rows = 2000, dim = 96;
  const Tensor x = normal(random, {1, rows, dim});
  Tensor grad_x = Tensor::zeros(x.shape());
  Weights weights = drawn();
  Linear linear({.in = dim, .out = 4 * dim}, weights, "linear.");
  const Tensor grad_wide = normal(random, {1, rows, 4 * dim});
  const double product = static_cast<double>(rows * dim * 4 * dim);
  expect_stops([&] { linear.forward(x, 1); }, product);
  expect_stops([&] { linear.backward(x, grad_wide, grad_x, 1); }, product);
  FeedForward feed({.model_dim = dim, .ff_dim = 4 * dim}, weights, "feed.");
  FeedForwardSaved saved;
  expect_stops([&] { feed.forward(x, 1); }, 2 * product);
  feed.forward(x, {}, saved, 1);
  expect_stops([&] { feed.backward(x, {}, saved, x, grad_x, 1); }, 3 * product);
  LayerNorm norm({.dim = dim}, weights, "norm.");
  expect_stops([&] { norm.forward(x, {}, 1); });
  expect_stops([&] { norm.backward(x, x, grad_x, 1); });
  const std::vector<std::int32_t> targets(static_cast<std::size_t>(rows), 3);
  const Tensor classes = normal(random, {500, dim});
  Tensor grad_classes = Tensor::zeros(classes.shape());
  const TensorView hidden = x.view().reshape({rows, dim});
  expect_stops(
      [&] {
        cross_entropy({.weight = classes}, hidden, targets, {.threads = 1},
                      {.hidden = grad_x.view().reshape({rows, dim}), .weight = grad_classes});
      },
      3 * static_cast<double>(rows * dim * 500));
}

TEST_P(LayersStop, InRecurrentLayers) {
  Random random(4);
  const std::int64_t batch = 3, length = 50, in = 40, hidden = 64;
  const Tensor x = normal(random, {batch, length, in});
  Tensor grad_x = Tensor::zeros(x.shape());
  for (const RecurrentCell cell : {RecurrentCell::rnn_tanh, RecurrentCell::lstm, RecurrentCell::gru}) {
    Weights weights = drawn();
    Recurrent layer = Recurrent::make({.cell = cell, .in = in, .hidden = hidden, .layers = 2}, weights);
    RecurrentSaved saved;
    const RecurrentOutput output = layer.forward(x, {}, {}, saved, 1);
    const auto forward = [&] { layer.forward(x, {}, 1); };
    expect_stops(forward);
    EXPECT_GE(test::questions_of(forward), 2 * length);  // once a step of each layer
    expect_stops([&] { layer.backward(x, {}, {}, saved, {.out = output.out}, {.x = grad_x}, 1); });
  }
}

TEST_P(LayersStop, InLayersOfPictures) {
  Random random(5);
  const Tensor x = normal(random, {2, 40, 50, 8});
  Tensor grad_x = Tensor::zeros(x.shape());
  Weights weights = drawn();
  Conv2d convolution({.in = 8, .out = 32, .kernel = {5, 5}, .padding = {2, 2}}, weights, "convolution.");
  const double product = 2 * 40.0 * 50 * 8 * 32 * 25;
  const Tensor out = convolution.forward(x, 1);
  expect_stops([&] { convolution.forward(x, 1); }, product);
  expect_stops([&] { convolution.backward(x, out, grad_x, 1); }, 2 * product);
  const Pool2d pool({.kernel = {2, 2}});
  const Tensor pooled = pool.forward(x, 1);
  expect_stops([&] { pool.forward(x, 1); });
  expect_stops([&] { pool.backward(x, pooled, grad_x, 1); });
}

TEST_P(LayersStop, InTransformers) {
  Random random(6);
  const Tensor x = normal(random, {2, 60, 32});
  Weights weights = drawn();
  Transformer model({.layer = {.model_dim = 32, .heads = 4, .ff_dim = 64}, .encoder_layers = 1, .decoder_layers = 2},
                    weights);
  TransformerSaved saved;
  const Tensor out = model.forward(x, x, {.threads = 1}, {}, saved);
  const double product = 120.0 * 32 * (3 * 4 * 32 + 2 * 4 * 32 + 3 * 2 * 64);
  expect_stops([&] { model.forward(x, x, {.threads = 1}); }, product);
  expect_stops([&] { model.backward(x, x, {.threads = 1}, {}, saved, out); }, 2 * product);
  // A token of the options does the same.
  std::stop_source source;
  source.request_stop();
  EXPECT_THROW(model.forward(x, x, {.stop = source.get_token()}), Stopped);
  EXPECT_THROW(model.backward(x, x, {.stop = source.get_token()}, {}, saved, out), Stopped);
  EXPECT_TRUE(testing::same_bits(model.forward(x, x, {.threads = 1}), out));
}

}  // namespace
}  // namespace qkv
