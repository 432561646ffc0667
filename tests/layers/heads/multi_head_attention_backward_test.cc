// Gradients of multi-head attention against finite differences: every layout of its weights, self and cross
// attention, padded and ragged batches, extra keys, masks; the same bits for any number of threads.
#include "attention/attention_testing.h"
#include "jacobian.h"
#include "qkv/layers/multi_head_attention.h"

namespace qkv {
namespace {

using testing::normal;

MultiHeadAttention layer_of(const MultiHeadAttentionConfig& config, Dtype dtype) {
  Random random(1);
  const std::int64_t inner = config.heads * 3, out = config.out_dim == 0 ? config.model_dim : config.out_dim;
  std::map<std::string, Tensor> tensors{{"in_proj_bias", normal(random, {3 * inner}, dtype)},
                                        {"out_proj.weight", normal(random, {out, inner}, dtype)},
                                        {"out_proj.bias", normal(random, {out}, dtype)}};
  if (config.key_input_dim == 0) {
    tensors["in_proj_weight"] = normal(random, {3 * inner, config.model_dim}, dtype);
  } else {
    tensors["q_proj_weight"] = normal(random, {inner, config.model_dim}, dtype);
    tensors["k_proj_weight"] = normal(random, {inner, config.key_input_dim}, dtype);
    tensors["v_proj_weight"] = normal(random, {inner, config.value_input_dim}, dtype);
  }
  if (config.bias_kv) {
    tensors["bias_k"] = normal(random, {1, 1, inner}, dtype);
    tensors["bias_v"] = normal(random, {1, 1, inner}, dtype);
  }
  MultiHeadAttentionConfig packed = config;
  packed.scheme = HeadScheme::packed;
  packed.head_dim = 3;
  Weights weights(std::move(tensors), "test", dtype);
  return MultiHeadAttention(packed, weights).with_scheme(config.scheme);
}

struct Inputs {
  Tensor query{}, key{}, value{};
  Tensor query_offsets{}, key_offsets{};  // no elements: padded
  bool self = false;

  Sequences sequences(const Tensor& rows, const Tensor& offsets) const {
    return query_offsets.element_count() == 0 ? Sequences(rows) : Sequences(rows, offsets);
  }
  Sequences q() const { return sequences(query, query_offsets); }
  Sequences k() const { return self ? q() : sequences(key, key_offsets); }
  Sequences v() const { return self ? q() : sequences(value, key_offsets); }
};

void expect_gradients(const MultiHeadAttentionConfig& config, Inputs inputs, const MultiHeadAttentionOptions& options) {
  MultiHeadAttention layer = layer_of(config, Dtype::f64);
  testing::want_gradients(layer);
  Random random(2);
  MultiHeadAttentionSaved saved;
  const Tensor out = layer.forward(inputs.q(), inputs.k(), inputs.v(), options, saved);
  EXPECT_TRUE(testing::same_bits(out, layer.forward(inputs.q(), inputs.k(), inputs.v(), options)));
  const Tensor grad_out = normal(random, out.shape(), Dtype::f64);
  Tensor query = Tensor::zeros(inputs.query.shape(), Dtype::f64), key = Tensor::zeros(inputs.key.shape(), Dtype::f64);
  Tensor value = Tensor::zeros(inputs.value.shape(), Dtype::f64);
  if (inputs.self) {
    layer.backward(inputs.q(), inputs.k(), inputs.v(), options, saved, grad_out, {query, query, query});
  } else {
    layer.backward(inputs.q(), inputs.k(), inputs.v(), options, saved, grad_out, {query, key, value});
  }
  const auto loss = [&] { return testing::dot(layer.forward(inputs.q(), inputs.k(), inputs.v(), options), grad_out); };
  testing::expect_parameter_gradients(layer, loss);
  testing::expect_gradient(loss, inputs.query, query);
  if (inputs.self) return;
  testing::expect_gradient(loss, inputs.key, key);
  testing::expect_gradient(loss, inputs.value, value);
}

constexpr HeadScheme kSchemes[] = {HeadScheme::packed, HeadScheme::per_head, HeadScheme::two_stage};

TEST(MultiHeadAttentionBackward, SelfAttention) {
  Random random(3);
  const Inputs inputs{.query = normal(random, {2, 3, 4}, Dtype::f64), .self = true};
  for (const HeadScheme scheme : kSchemes) {
    const MultiHeadAttentionConfig config{.model_dim = 4, .heads = 2, .scheme = scheme};
    expect_gradients(config, inputs, {.mask = Mask::causal()});
  }
}

TEST(MultiHeadAttentionBackward, CrossAttentionWithExtraKeys) {
  Random random(4);
  const Inputs inputs{.query = normal(random, {2, 3, 4}, Dtype::f64),
                      .key = normal(random, {2, 4, 5}, Dtype::f64),
                      .value = normal(random, {2, 4, 2}, Dtype::f64)};
  // The first sequence has no key of its own.
  const Tensor lengths = Tensor::of<std::int32_t>({2}, {0, 3});
  for (const HeadScheme scheme : kSchemes) {
    const MultiHeadAttentionConfig config{.model_dim = 4,
                                          .heads = 2,
                                          .key_input_dim = 5,
                                          .value_input_dim = 2,
                                          .out_dim = 3,
                                          .bias_kv = true,
                                          .zero_attention = true,
                                          .scheme = scheme};
    expect_gradients(config, inputs, {.mask = Mask::lengths(lengths)});
    expect_gradients(config, inputs, {.mask = Mask::lengths(lengths), .dropout = {.p = 0.3, .seed = 5}});
  }
}

TEST(MultiHeadAttentionBackward, Ragged) {
  Random random(5);
  const Inputs inputs{.query = normal(random, {4, 4}, Dtype::f64),
                      .key = normal(random, {5, 4}, Dtype::f64),
                      .value = normal(random, {5, 4}, Dtype::f64),
                      .query_offsets = offsets_of(std::vector<std::int64_t>{3, 0, 1}),
                      .key_offsets = offsets_of(std::vector<std::int64_t>{2, 1, 2})};
  const Tensor bias = normal(random, {1, 2, 3, 2}, Dtype::f64);
  for (const bool extra : {false, true}) {
    const MultiHeadAttentionConfig config{.model_dim = 4, .heads = 2, .bias_kv = extra, .zero_attention = extra};
    expect_gradients(config, inputs, {.bias = Bias::view(bias)});
    expect_gradients(config, inputs, {.bias = Bias::view(bias), .dropout = {.p = 0.3, .seed = 6}});
  }
}

// One parameter frozen, no place for the inputs: nothing else changes.
TEST(MultiHeadAttentionBackward, TheSameOnAnyThreads) {
  Random random(6);
  const Tensor x = normal(random, {2, 300, 12}), grad_out = normal(random, {2, 300, 12});
  for (const HeadScheme scheme : {HeadScheme::packed, HeadScheme::per_head}) {
    std::map<std::string, Tensor> first;
    for (const int threads : {1, 2, 3, 4, 7, 16}) {
      MultiHeadAttention layer = layer_of({.model_dim = 12, .heads = 4, .scheme = scheme}, Dtype::f32);
      layer.update([&](const std::string& name, Parameter& own) {
        if (threads != 2 || name != "out_proj.bias") own.want_gradient();
      });
      const MultiHeadAttentionOptions options{.mask = Mask::causal(), .threads = threads};
      MultiHeadAttentionSaved saved;
      layer.forward(x, x, x, options, saved);
      Tensor grad_x = Tensor::zeros(x.shape());
      layer.backward(x, x, x, options, saved, grad_out, {grad_x, grad_x, grad_x});
      std::map<std::string, Tensor> results{{"x", grad_x}};
      layer.visit([&](const std::string& name, const Parameter& own) { results[name] = own.gradient; });
      if (first.empty()) first = results;
      for (const auto& [name, gradient] : results) {
        const bool wanted = gradient.element_count() > 0;
        EXPECT_TRUE(!wanted || testing::same_bits(gradient, first.at(name))) << name;
      }
    }
  }
}

}  // namespace
}  // namespace qkv
