// Gradients of whole layers against finite differences: encoder and decoder layers, both orders of the norm, every
// activation, padded and ragged, with dropout; the same bits for any number of threads.
#include <functional>

#include "attention/attention_testing.h"
#include "jacobian.h"
#include "layers/basic/rows.h"
#include "qkv/layers/transformer_layer.h"

namespace qkv {
namespace {

using testing::normal;

// Whatever a layer takes, drawn: norms around 1.
std::map<std::string, Tensor> drawn(std::int64_t dim, std::int64_t ff_dim, bool decoder, Dtype dtype) {
  Random random(1);
  std::map<std::string, Tensor> tensors{{"linear1.weight", normal(random, {ff_dim, dim}, dtype)},
                                        {"linear1.bias", normal(random, {ff_dim}, dtype)},
                                        {"linear2.weight", normal(random, {dim, ff_dim}, dtype)},
                                        {"linear2.bias", normal(random, {dim}, dtype)}};
  for (const std::string attention : {"self_attn.", "multihead_attn."}) {
    if (attention == "multihead_attn." && !decoder) continue;
    tensors[attention + "in_proj_weight"] = normal(random, {3 * dim, dim}, dtype);
    tensors[attention + "in_proj_bias"] = normal(random, {3 * dim}, dtype);
    tensors[attention + "out_proj.weight"] = normal(random, {dim, dim}, dtype);
    tensors[attention + "out_proj.bias"] = normal(random, {dim}, dtype);
  }
  for (const std::string norm : {"norm1.", "norm2.", "norm3."}) {
    if (norm == "norm3." && !decoder) continue;
    tensors[norm + "weight"] = normal(random, {dim}, dtype);
    tensors[norm + "bias"] = normal(random, {dim}, dtype);
  }
  return tensors;
}

template <class Layer>
Layer layer_of(const TransformerLayerConfig& config, Dtype dtype = Dtype::f64) {
  Weights weights(drawn(config.model_dim, config.ff_dim, std::is_same_v<Layer, DecoderLayer>, dtype), "test", dtype);
  Layer layer(config, weights);
  weights.expect_empty();
  testing::want_gradients(layer);
  return layer;
}

void expect_encoder_gradients(const TransformerLayerConfig& config, Tensor x, const Tensor& offsets,
                              const Dropout& dropout) {
  EncoderLayer layer = layer_of<EncoderLayer>(config);
  const MultiHeadAttentionOptions options{.mask = Mask::window(1, 1)};
  const auto in = [&] { return offsets.element_count() == 0 ? Sequences(x) : Sequences(x, offsets); };
  Random random(2);
  const Tensor grad_out = normal(random, x.shape(), Dtype::f64);
  EncoderLayerSaved saved;
  const Tensor out = layer.forward(in(), options, dropout, saved);
  if (dropout.p == 0) {
    EXPECT_TRUE(testing::same_bits(out, layer.forward(in(), options)));
  }
  const Tensor grad_x = layer.backward(in(), options, dropout, saved, grad_out);
  const auto loss = [&] {
    EncoderLayerSaved again;
    return testing::dot(layer.forward(in(), options, dropout, again), grad_out);
  };
  testing::expect_gradient(loss, x, grad_x, 1e-7);
  testing::expect_parameter_gradients(layer, loss, 1e-7);
}

TEST(TransformerLayers, EncoderGradients) {
  Random random(3);
  const Tensor padded = normal(random, {2, 3, 4}, Dtype::f64), rows = normal(random, {5, 4}, Dtype::f64);
  const Tensor offsets = offsets_of(std::vector<std::int64_t>{2, 0, 3});
  for (const NormOrder order : {NormOrder::post, NormOrder::pre}) {
    for (const Activation activation : {Activation::gelu, Activation::silu}) {
      const TransformerLayerConfig config{
          .model_dim = 4, .heads = 2, .ff_dim = 5, .activation = activation, .epsilon = 1e-2, .norm_order = order};
      expect_encoder_gradients(config, padded, {}, {});
      expect_encoder_gradients(config, rows, offsets, {.p = 0.4, .seed = 5});
    }
  }
}

TEST(TransformerLayers, DecoderGradients) {
  Random random(4);
  Tensor x = normal(random, {5, 4}, Dtype::f64), memory = normal(random, {6, 4}, Dtype::f64);
  const Tensor offsets = offsets_of(std::vector<std::int64_t>{2, 0, 3});
  const Tensor memory_offsets = offsets_of(std::vector<std::int64_t>{1, 2, 3});
  const Sequences in(x, offsets), from(memory, memory_offsets);
  const Tensor grad_out = normal(random, {5, 4}, Dtype::f64);
  for (const NormOrder order : {NormOrder::post, NormOrder::pre}) {
    for (const double p : {0.0, 0.3}) {
      DecoderLayer layer = layer_of<DecoderLayer>({.model_dim = 4,
                                                   .heads = 2,
                                                   .ff_dim = 5,
                                                   .activation = Activation::gelu,
                                                   .epsilon = 1e-2,
                                                   .norm_order = order});
      const Dropout dropout{.p = p, .seed = 9};
      DecoderLayerSaved saved;
      const Tensor out = layer.forward(in, from, {}, dropout, saved);
      if (p == 0) {
        EXPECT_TRUE(testing::same_bits(out, layer.forward(in, from)));
      }
      Tensor grad_memory = Tensor::zeros(memory.shape(), Dtype::f64);
      const Tensor grad_x = layer.backward(in, from, {}, dropout, saved, grad_out, grad_memory);
      const auto loss = [&] {
        DecoderLayerSaved again;
        return testing::dot(layer.forward(in, from, {}, dropout, again), grad_out);
      };
      testing::expect_gradient(loss, x, grad_x, 1e-7);
      testing::expect_gradient(loss, memory, grad_memory, 1e-7);
      testing::expect_parameter_gradients(layer, loss, 1e-7);
    }
  }
}

TEST(TransformerLayers, TheSameOnAnyThreads) {
  Random random(5);
  const Tensor x = normal(random, {600, 16}), memory = normal(random, {400, 16}), grad_out = normal(random, {600, 16});
  const Tensor offsets = offsets_of(std::vector<std::int64_t>{300, 17, 283});
  const Tensor memory_offsets = offsets_of(std::vector<std::int64_t>{100, 299, 1});
  std::map<std::string, Tensor> first;
  for (const int threads : {1, 2, 3, 7}) {
    DecoderLayer layer = layer_of<DecoderLayer>({.model_dim = 16, .heads = 4, .ff_dim = 40}, Dtype::f32);
    const DecoderLayerOptions options{.threads = threads};
    const Dropout dropout{.p = 0.1, .seed = 3};
    DecoderLayerSaved saved;
    std::map<std::string, Tensor> results;
    results["out"] = layer.forward({x, offsets}, {memory, memory_offsets}, options, dropout, saved);
    results["memory"] = Tensor::zeros(memory.shape());
    results["x"] =
        layer.backward({x, offsets}, {memory, memory_offsets}, options, dropout, saved, grad_out, results["memory"]);
    layer.visit([&](const std::string& name, const Parameter& own) { results[name] = own.gradient; });
    if (first.empty()) first = results;
    for (const auto& [name, tensor] : results) {
      EXPECT_TRUE(testing::same_bits(tensor, first.at(name))) << name << ", " << threads << " threads";
    }
  }
}

TEST(TransformerLayers, DecoderNamesItsParametersAsTorchDoes) {
  std::map<std::string, Tensor> given = drawn(4, 5, true, Dtype::f64);
  layer_of<DecoderLayer>({.model_dim = 4, .heads = 2, .ff_dim = 5})
      .visit([&](const std::string& name, const Parameter& own) {
        EXPECT_TRUE(testing::same_bits(own.value, given.at(name))) << name;
        given.erase(name);
      });
  EXPECT_TRUE(given.empty());
}

}  // namespace
}  // namespace qkv
