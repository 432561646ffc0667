// The list of parameters: what update() writes reaches the next forward, packed copies and extra keys included.
#include "qkv/layers/parameter.h"

#include "attention/attention_testing.h"
#include "qkv/layers/multi_head_attention.h"
#include "qkv/layers/transformer_layer.h"

namespace qkv {
namespace {

template <class Layer>
std::map<std::string, Tensor> values_of(const Layer& layer) {
  std::map<std::string, Tensor> values;
  layer.visit([&](const std::string& name, const Parameter& own) { values[name] = own.value; });
  return values;
}

template <class Layer>
void shift_values(Layer& layer) {
  layer.update([](const std::string&, Parameter& own) {
    for (std::int64_t i = 0; i < own.value.element_count(); ++i) own.value.data<float>()[i] += 0.125f;
  });
}

MultiHeadAttention attention_layer() {
  Random random(1);
  std::map<std::string, Tensor> tensors{
      {"in_proj_weight", testing::normal(random, {18, 6})}, {"in_proj_bias", testing::normal(random, {18})},
      {"bias_k", testing::normal(random, {1, 1, 6})},       {"bias_v", testing::normal(random, {1, 1, 6})},
      {"out_proj.weight", testing::normal(random, {6, 6})}, {"out_proj.bias", testing::normal(random, {6})}};
  Weights weights(tensors);
  return MultiHeadAttention({.model_dim = 6, .heads = 2, .bias_kv = true}, weights);
}

TEST(Parameter, UpdatesReachForward) {
  Random random(2);
  const Tensor x = testing::normal(random, {2, 5, 6});
  for (const HeadScheme scheme : {HeadScheme::packed, HeadScheme::per_head, HeadScheme::two_stage}) {
    MultiHeadAttention layer = attention_layer().with_scheme(scheme);
    const Tensor before = layer.forward(x);
    shift_values(layer);
    Weights weights(values_of(layer));
    const MultiHeadAttention fresh(layer.config(), weights);
    EXPECT_TRUE(testing::same_bits(layer.forward(x), fresh.forward(x)));
    EXPECT_GT(testing::difference(layer.forward(x), before), 1e-3);
  }
}

TEST(Parameter, WholeLayersUpdateWhatTheyVisit) {
  Random random(3);
  std::map<std::string, Tensor> tensors{{"self_attn.in_proj_weight", testing::normal(random, {12, 4})},
                                        {"self_attn.in_proj_bias", testing::normal(random, {12})},
                                        {"self_attn.out_proj.weight", testing::normal(random, {4, 4})},
                                        {"self_attn.out_proj.bias", testing::normal(random, {4})},
                                        {"linear1.weight", testing::normal(random, {7, 4})},
                                        {"linear1.bias", testing::normal(random, {7})},
                                        {"linear2.weight", testing::normal(random, {4, 7})},
                                        {"linear2.bias", testing::normal(random, {4})}};
  for (const std::string name : {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}) {
    tensors[name] = testing::normal(random, {4});
  }
  const EncoderLayerConfig config{.model_dim = 4, .heads = 2, .ff_dim = 7};
  Weights weights(tensors);
  EncoderLayer layer(config, weights);
  shift_values(layer);
  Weights shifted(values_of(layer));
  const EncoderLayer fresh(config, shifted);
  const Tensor x = testing::normal(random, {3, 4});
  EXPECT_TRUE(testing::same_bits(layer.forward(x), fresh.forward(x)));

  std::vector<std::string> visited, updated;
  layer.visit([&](const std::string& name, const Parameter& own) {
    visited.push_back(name);
    EXPECT_FALSE(own.has_gradient());
  });
  layer.update([&](const std::string& name, Parameter& own) {
    updated.push_back(name);
    own.want_gradient();
  });
  EXPECT_EQ(visited, updated);
  layer.visit([&](const std::string&, const Parameter& own) {
    EXPECT_TRUE(own.has_gradient());
    EXPECT_EQ(own.gradient.shape(), own.value.shape());
    EXPECT_EQ(testing::largest(own.gradient), 0.0);
  });
}

}  // namespace
}  // namespace qkv
