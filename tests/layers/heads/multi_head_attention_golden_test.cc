// Parity with torch.nn.MultiheadAttention: golden/multi_head_attention/multi_head_attention.safetensors, made by
// make.py beside it.
#include <algorithm>
#include <sstream>

#include "attention/attention_testing.h"
#include "qkv/files.h"
#include "qkv/layers/multi_head_attention.h"
#include "qkv/layers/torch_masks.h"

namespace qkv {
namespace {

const SafeTensors& golden() {
  static const SafeTensors file =
      read_safetensors(QKV_TEST_DATA "/golden/multi_head_attention/multi_head_attention.safetensors");
  return file;
}

// A tensor of the case in the layer's type, masks as they are; not given if the case has none.
struct Case {
  std::string name;
  Dtype dtype;

  Tensor tensor(const std::string& part) const {
    const auto found = golden().tensors.find(name + "." + part);
    if (found == golden().tensors.end()) return {};
    return is_floating(found->second.dtype()) ? convert(found->second, dtype) : found->second;
  }
  bool has(const std::string& part) const { return golden().tensors.contains(name + "." + part); }

  MultiHeadAttention layer() const {
    std::map<std::string, std::int64_t> torch;
    std::istringstream words(golden().metadata.at(name));
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      torch[word.substr(0, equals)] = std::stoll(word.substr(equals + 1));
    }
    const MultiHeadAttentionConfig config{
        .model_dim = torch.at("embed_dim"),
        .heads = torch.at("num_heads"),
        .key_input_dim = torch["kdim"],
        .value_input_dim = torch["vdim"],
        .bias = !torch.contains("bias") || torch["bias"] != 0,
        .bias_kv = torch["add_bias_kv"] != 0,
        .zero_attention = torch["add_zero_attn"] != 0,
        .scheme = name.starts_with("two_stage") ? HeadScheme::two_stage : HeadScheme::packed};
    const std::string prefix = name + ".weights.";
    std::map<std::string, Tensor> tensors;
    for (const auto& [key, tensor] : golden().tensors) {
      if (key.starts_with(prefix)) tensors[key.substr(prefix.size())] = tensor;
    }
    Weights weights(std::move(tensors), name, dtype);
    MultiHeadAttention made(config, weights);
    weights.expect_empty();
    return made;
  }
};

// Sums of some ten products of numbers around 1, in another order.
double tolerance(Dtype dtype) { return dtype == Dtype::f64 ? 1e-13 : 1e-5; }

void expect_parity(const Case& test, const MultiHeadAttention& layer) {
  const Tensor query = test.tensor("query"), key = test.has("key") ? test.tensor("key") : query;
  const Tensor value = test.has("value") ? test.tensor("value") : key;
  const Tensor attn_mask = test.tensor("attn_mask"), padding = test.tensor("key_padding_mask");
  const TorchMasks masks({.attention = test.has("attn_mask") ? attn_mask.view() : TensorView(),
                          .key_padding = test.has("key_padding_mask") ? padding.view() : TensorView()},
                         layer.config().heads);
  MultiHeadAttentionOptions options{.mask = masks.mask(), .bias = masks.bias()};
  const Tensor exact = golden().tensors.at(test.name + ".out_f64");
  EXPECT_LE(testing::difference(layer.forward(query, key, value, options), exact), tolerance(test.dtype));
  if (!test.has("weights_f64")) return;

  Tensor weights = test.tensor("weights_f64"), mean = test.tensor("mean_weights_f64");
  std::fill_n(weights.view().bytes(), weights.element_count() * static_cast<int>(size_of(test.dtype)), std::byte{0xff});
  options.weights = weights;
  options.mean_weights = mean;
  EXPECT_LE(testing::difference(layer.forward(query, key, value, options), exact), tolerance(test.dtype));
  EXPECT_LE(testing::difference(weights, golden().tensors.at(test.name + ".weights_f64")), tolerance(test.dtype));
  EXPECT_LE(testing::difference(mean, golden().tensors.at(test.name + ".mean_weights_f64")), tolerance(test.dtype));
}

TEST(MultiHeadAttentionGolden, EveryCaseInEverySchemeAndType) {
  EXPECT_EQ(golden().metadata.size(), 29u);
  for (const auto& [name, config] : golden().metadata) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      SCOPED_TRACE(name + " " + config + " " + std::string(name_of(dtype)));
      const Case test{name, dtype};
      const MultiHeadAttention layer = test.layer();
      expect_parity(test, layer);
      expect_parity(test, layer.with_scheme(HeadScheme::per_head));
      expect_parity(test, layer.with_scheme(HeadScheme::two_stage));
      expect_parity(test, layer.with_scheme(HeadScheme::two_stage).with_scheme(HeadScheme::packed));
    }
  }
}

// Where weights are asked for, torch leaves the NaN of a softmax over nothing: in rows that see no key, in all of their
// outputs, and nowhere else.
TEST(MultiHeadAttentionGolden, EmptyRowsAsTorchHasThem) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const Case test{"rows_without_keys", dtype};
    const Tensor query = test.tensor("query"), padding = test.tensor("key_padding_mask");
    const Tensor expected = golden().tensors.at("rows_without_keys.nan_out_f64");
    Tensor weights = test.tensor("nan_weights_f64"), mean = test.tensor("nan_mean_weights_f64");
    const TorchMasks masks({.attention = {}, .key_padding = padding}, 3);
    MultiHeadAttentionOptions options{.mask = masks.mask(), .empty_rows = EmptyRows::nan};
    const MultiHeadAttention layer = test.layer();
    ASSERT_EQ(std::ranges::count_if(testing::values(expected), [](double x) { return std::isnan(x); }), 6 * 12);
    EXPECT_LE(testing::difference(layer.forward(query, query, options), expected), tolerance(dtype));
    std::fill_n(weights.view().bytes(), weights.element_count() * static_cast<int>(size_of(dtype)), std::byte{0});
    options.weights = weights;
    options.mean_weights = mean;
    EXPECT_LE(testing::difference(layer.forward(query, query, options), expected), tolerance(dtype));
    EXPECT_LE(testing::difference(weights, golden().tensors.at("rows_without_keys.nan_weights_f64")), tolerance(dtype));
    EXPECT_LE(testing::difference(mean, golden().tensors.at("rows_without_keys.nan_mean_weights_f64")),
              tolerance(dtype));
  }
}

// A part of the call sees no key then, and is no row of its own.
TEST(MultiHeadAttentionGolden, ExtraKeysLeaveNoRowEmpty) {
  const Case test{"extras_alone", Dtype::f32};
  const Tensor query = test.tensor("query"), padding = test.tensor("key_padding_mask");
  const TorchMasks masks({.attention = {}, .key_padding = padding}, 3);
  Tensor weights = test.tensor("weights_f64");
  const MultiHeadAttentionOptions options{.mask = masks.mask(), .weights = weights, .empty_rows = EmptyRows::nan};
  EXPECT_LE(testing::difference(test.layer().forward(query, query, options), test.tensor("out_f64")), 1e-5);
  EXPECT_LE(testing::difference(weights, golden().tensors.at("extras_alone.weights_f64")), 1e-5);
}

// f32 is at most twice as far from float64 as torch's own float32, above a floor of a few roundings of the result.
TEST(MultiHeadAttentionGolden, AsExactAsTorch) {
  for (const auto& [name, config] : golden().metadata) {
    SCOPED_TRACE(name);
    const Case test{name, Dtype::f32};
    if (test.has("attn_mask") || test.has("key_padding_mask")) continue;
    const Tensor query = test.tensor("query"), key = test.has("key") ? test.tensor("key") : query;
    const Tensor out = test.layer().forward(query, key, test.has("value") ? test.tensor("value") : key);
    const Tensor exact = golden().tensors.at(name + ".out_f64");
    const double torch_error = testing::difference(golden().tensors.at(name + ".out"), exact);
    EXPECT_LE(testing::difference(out, exact), 2 * torch_error + 5e-7 * testing::largest(exact));
  }
}

}  // namespace
}  // namespace qkv
