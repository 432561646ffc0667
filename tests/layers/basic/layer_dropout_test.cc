// Dropout between layers against the public mask, on every target; in place, in parts, and on any threads.
#include "attention/attention_testing.h"
#include "layers/basic/rows.h"
#include "qkv/layers/feed_forward.h"
#include "qkv/layers/initial_weights.h"

namespace qkv {
namespace {

QKV_ON_EACH_TARGET(LayerDropoutTargets);

TEST_P(LayerDropoutTargets, IsTheMaskOfTheWeights) {
  Random random(1);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t size : {1, 7, 8, 9, 64, 65, 200}) {
      const Dropout dropout{.p = 0.3, .seed = 77};
      const Tensor x = testing::normal(random, {5, size}, dtype);
      Tensor kept = Tensor::zeros({5, size}, Dtype::boolean), out = Tensor::zeros({5, size}, dtype);
      dropout_mask(dropout, kept);
      drop(dropout, x, out, 1);
      const double rate = std::round(0.7 * 65536) / 65536;
      for (std::int64_t i = 0; i < x.element_count(); ++i) {
        const double given = testing::values(x)[static_cast<std::size_t>(i)];
        const double expected = kept.data<bool>()[i] ? given / rate : 0;
        ASSERT_NEAR(testing::values(out)[static_cast<std::size_t>(i)], expected, 3e-7 * std::abs(expected)) << i;
      }
    }
  }
}

TEST(LayerDropout, InPlaceInPartsAndOnAnyThreads) {
  Random random(2);
  const Dropout dropout{.p = 0.5, .seed = 3};
  const Tensor x = testing::normal(random, {700, 100});
  Tensor whole = Tensor::zeros(x.shape()), parts = x, threaded = Tensor::zeros(x.shape());
  drop(dropout, x, whole, 1);
  drop(dropout, x, threaded, 7);
  drop(dropout, parts.view().slice(0, 0, 130), parts.view().slice(0, 0, 130), 2);
  drop(dropout, parts.view().slice(0, 130, 700), parts.view().slice(0, 130, 700), 2, 130);
  EXPECT_TRUE(testing::same_bits(whole, threaded));
  EXPECT_TRUE(testing::same_bits(whole, parts));
  drop({}, x, whole, 1);
  EXPECT_TRUE(testing::same_bits(whole, x));
}

TEST(LayerDropout, PlacesHaveTheirOwnSeeds) {
  const Dropout dropout{.p = 0.1, .seed = 3};
  EXPECT_NE(dropout_at(dropout, 0).seed, dropout_at(dropout, 1).seed);
  EXPECT_NE(dropout_at(dropout, 0).seed, dropout_at({.p = 0.1, .seed = 4}, 0).seed);
  EXPECT_EQ(dropout_at(dropout, 2).seed, dropout_at(dropout, 2).seed);
  EXPECT_EQ(dropout_at(dropout, 2).p, 0.1);
}

TEST(LayerDropout, OfActivationsIsLeftOutOnRequest) {
  Random random(4);
  const Tensor x = testing::normal(random, {9, 12});
  const Dropout dropout{.p = 0.5, .seed = 5};
  for (const bool dropped : {true, false}) {
    Weights weights = initial_weights(6);
    const FeedForward layer({.model_dim = 12, .ff_dim = 40, .activation_dropout = dropped}, weights);
    FeedForwardSaved saved;
    EXPECT_EQ(testing::same_bits(layer.forward(x, dropout, saved), layer.forward(x)), !dropped);
  }
}

}  // namespace
}  // namespace qkv
