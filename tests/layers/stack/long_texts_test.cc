// Long sequences: layers in place take the keys and values of some heads at a time, with the bits of all at once, and
// little memory beside their rows.
#include "layers/asked_layer.h"
#include "memory_for_test.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/layers/transformer.h"
#include "sanitizers.h"

namespace qkv::testing {
namespace {

class Silent : public Observer {
 public:
  bool wants(std::string_view) const override { return false; }
  void receive(std::string_view, const TensorView&) override {}
};

// As ModernBERT: a window in every other layer.
StackConfig long_stack(NormOrder order, std::int64_t dim, std::int64_t heads, std::int64_t kv_heads) {
  StackConfig config{.layers = 2};
  for (const bool has_window : {false, true}) {
    TransformerLayerConfig layer{.model_dim = dim,
                                 .heads = heads,
                                 .ff_dim = dim,
                                 .activation = Activation::gelu,
                                 .norm_order = order,
                                 .kv_heads = kv_heads,
                                 .rotary = RotaryConfig{}};
    layer.gated = true;
    if (has_window) layer.window = AttentionWindow{16, 16};
    config.each.push_back(layer);
  }
  config.layer = config.each[0];
  return config;
}

// An observer sees all heads: with one, queries, keys and values of all are there at once.
TEST(LongTexts, HaveTheBitsOfAllHeadsAtOnce) {
  for (const NormOrder order : {NormOrder::pre, NormOrder::post, NormOrder::both, NormOrder::parallel}) {
    for (const std::int64_t kv_heads : {6, 3}) {
      Weights weights = initial_weights(3);
      StackConfig config = long_stack(order, 96, 6, kv_heads);
      for (TransformerLayerConfig* layer : {&config.each[0], &config.each[1]}) {
        layer->query_key_norm = kv_heads == 3 ? std::optional<double>(1e-6) : std::nullopt;
        layer->head_dim = 128;
      }
      const Encoder stack(config, weights);
      Random random(7);
      const Tensor x = normal(random, {3500, 96}), offsets = offsets_of(std::vector<std::int64_t>{3400, 1, 99});
      Silent observer;
      for (const int threads : {1, 2}) {
        const TransformerLayerInput in({x, offsets}, {.mask = Mask::window(30, 30), .threads = threads});
        Tensor rows = x;
        stack.run(in, rows, nullptr);
        EXPECT_TRUE(same_bits(rows, stack.run(in, &observer))) << kv_heads << ", " << threads;
      }
    }
  }
}

#ifndef QKV_SANITIZED  // sanitizers need memory of their own

// ModernBERT-base's shape: with x, which is there before, 60 MiB. The outputs of all heads have the size of x, keys and
// values of a head 4 MiB, angles 2; 6 for blocks of rows and for large pages that are not full.
TEST(LongTexts, TakeTheirRowsOnceMore) {
  constexpr std::int64_t kRows = 8192, kDim = 768;
  Weights weights = initial_weights(3);
  const Encoder stack(long_stack(NormOrder::pre, kDim, 12, 12), weights);
  Tensor x = filled({kRows, kDim}, 0.5);
  const auto run = [&] {
    stack.run({{x, {}}, {.mask = Mask::window(64, 64)}}, x, nullptr);
    return 0;
  };
  EXPECT_LE(test::cost(run).peak, kRows * kDim * 4 + (4 + 2 + 6) * test::kMebibyte);
}

#endif  // QKV_SANITIZED

}  // namespace
}  // namespace qkv::testing
