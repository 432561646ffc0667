// Multi-head attention whose keys and values have fewer heads: in every scheme, beside extra keys, and their gradients.
#include "attention/attention_testing.h"
#include "jacobian.h"
#include "qkv/layers/multi_head_attention.h"

namespace qkv {
namespace {

using testing::difference;
using testing::normal;

const MultiHeadAttentionConfig kConfig{.model_dim = 6,
                                       .heads = 4,
                                       .kv_heads = 2,
                                       .head_dim = 3,
                                       .projection_bias = {.key = false, .out = false},
                                       .bias_kv = true,
                                       .zero_attention = true,
                                       .soft_cap = 2};

MultiHeadAttention layer_of(const MultiHeadAttentionConfig& config) {
  Random random(1);
  Weights weights([&](const std::string&, const Dims& shape) { return normal(random, shape, Dtype::f64, 0.5); },
                  Dtype::f64);
  return MultiHeadAttention(config, weights);
}

std::map<std::string, Dims> shapes_of(const MultiHeadAttention& layer) {
  std::map<std::string, Dims> shapes;
  layer.visit([&](const std::string& name, const Parameter& own) { shapes[name] = own.value.shape(); });
  return shapes;
}

TEST(GroupedHeads, ParametersOfFewerHeads) {
  const std::map<std::string, Dims> packed = shapes_of(layer_of(kConfig));
  EXPECT_EQ(packed, (std::map<std::string, Dims>{{"in_proj_weight", {24, 6}},
                                                 {"in_proj_bias", {18}},  // of queries and values
                                                 {"bias_k", {1, 1, 6}},
                                                 {"bias_v", {1, 1, 6}},
                                                 {"out_proj.weight", {6, 12}}}));
  const std::map<std::string, Dims> two = shapes_of(layer_of(kConfig).with_scheme(HeadScheme::two_stage));
  EXPECT_EQ(two.at("key.shared_weight"), (Dims{6, 6}));
  EXPECT_EQ(two.at("key.weight"), (Dims{2, 3, 6}));
  EXPECT_EQ(two.at("value.bias"), (Dims{2, 3}));
  EXPECT_FALSE(two.contains("key.bias"));
}

// The same as one head of keys and values for each head of queries, which repeats them.
TEST(GroupedHeads, AreRepeatedHeads) {
  MultiHeadAttentionConfig config = kConfig;
  config.zero_attention = config.bias_kv = false;
  const MultiHeadAttention grouped = layer_of(config);
  config.kv_heads = 4;
  std::map<std::string, Tensor> tensors;
  grouped.visit([&](const std::string& name, const Parameter& own) { tensors[name] = own.value; });
  const auto repeated = [&](const Tensor& from, std::initializer_list<std::int64_t> heads) {
    Dims shape = from.shape();
    shape[0] = static_cast<std::int64_t>(heads.size()) * 3;
    Tensor to = Tensor::uninitialized(shape, Dtype::f64);
    std::int64_t row = 0;
    for (const std::int64_t head : heads) {
      convert(from.view().slice(0, head * 3, head * 3 + 3), to.view().slice(0, row, row + 3));
      row += 3;
    }
    return to;
  };
  // Heads of queries, of keys, of values, as blocks of rows.
  tensors["in_proj_weight"] = repeated(tensors["in_proj_weight"], {0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7});
  tensors["in_proj_bias"] = repeated(tensors["in_proj_bias"], {0, 1, 2, 3, 4, 4, 5, 5});
  Weights weights(std::move(tensors), "test", Dtype::f64);
  const MultiHeadAttention whole(config, weights);
  Random random(2);
  const Tensor x = normal(random, {2, 5, 6}, Dtype::f64);
  EXPECT_LE(difference(grouped.forward(x), whole.forward(x)), 1e-14);
}

TEST(GroupedHeads, EverySchemeIsTheSame) {
  const MultiHeadAttention layer = layer_of(kConfig);
  Random random(3);
  const Tensor x = normal(random, {2, 5, 6}, Dtype::f64), memory = normal(random, {2, 4, 6}, Dtype::f64);
  const Tensor expected = layer.forward(x, memory);
  for (const HeadScheme scheme : {HeadScheme::per_head, HeadScheme::two_stage}) {
    const MultiHeadAttention other = layer.with_scheme(scheme);
    EXPECT_LE(difference(other.forward(x, memory), expected), 1e-13);
    EXPECT_LE(difference(other.with_scheme(HeadScheme::packed).forward(x, memory), expected), 1e-13);
  }
}

TEST(GroupedHeads, Gradients) {
  Random random(4);
  for (const HeadScheme scheme : {HeadScheme::packed, HeadScheme::per_head, HeadScheme::two_stage}) {
    for (const bool ragged : {false, true}) {
      MultiHeadAttention layer = layer_of(kConfig).with_scheme(scheme);
      testing::want_gradients(layer);
      Tensor x = normal(random, {4, 6}, Dtype::f64), memory = normal(random, {5, 6}, Dtype::f64);
      const Tensor x_offsets = offsets_of(std::vector<std::int64_t>{3, 1});
      const Tensor memory_offsets = offsets_of(std::vector<std::int64_t>{2, 3});
      const Sequences in = ragged ? Sequences(x, x_offsets) : Sequences(x);
      const Sequences from = ragged ? Sequences(memory, memory_offsets) : Sequences(memory);
      const Tensor grad_out = normal(random, {4, 6}, Dtype::f64);
      MultiHeadAttentionSaved saved;
      layer.forward(in, from, from, {}, saved);
      Tensor grad_x = Tensor::zeros({4, 6}, Dtype::f64), grad_memory = Tensor::zeros({5, 6}, Dtype::f64);
      layer.backward(in, from, from, {}, saved, grad_out, {grad_x, grad_memory, grad_memory});
      const auto loss = [&] { return testing::dot(layer.forward(in, from), grad_out); };
      testing::expect_gradient(loss, x, grad_x);
      testing::expect_gradient(loss, memory, grad_memory);
      testing::expect_parameter_gradients(layer, loss);
    }
  }
}

}  // namespace
}  // namespace qkv
