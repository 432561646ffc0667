// Parity with torch.nn.MultiheadAttention: tests/golden/multi_head_attention.
#include "layers/golden_file.h"
#include "qkv/layers/multi_head_attention.h"
#include "qkv/layers/torch_masks.h"

namespace qkv::testing {
namespace {

const GoldenFile& golden() {
  static const GoldenFile file("multi_head_attention");
  return file;
}

// One case of the file in the layer's type.
struct Case {
  std::string name;
  Dtype dtype;

  bool has(const std::string& part) const { return golden().has(name + "." + part); }
  const Tensor& exact(const std::string& part) const { return golden().at(name + "." + part); }
  // Masks as they are; no tensor if the case has none.
  Tensor tensor(const std::string& part) const {
    if (!has(part)) return {};
    return is_floating(exact(part).dtype()) ? convert(exact(part), dtype) : exact(part);
  }
  Tensor query() const { return tensor("query"); }
  Tensor key() const { return tensor(has("key") ? "key" : "query"); }
  Tensor value() const { return has("value") ? tensor("value") : key(); }

  MultiHeadAttention layer() const {
    std::map<std::string, std::int64_t> torch{{"bias", 1}};
    std::istringstream words(golden().metadata().at(name));
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      torch[word.substr(0, equals)] = std::stoll(word.substr(equals + 1));
    }
    const MultiHeadAttentionConfig config{
        .model_dim = torch.at("embed_dim"),
        .heads = torch.at("num_heads"),
        .key_input_dim = torch["kdim"],
        .value_input_dim = torch["vdim"],
        .bias = torch["bias"] != 0,
        .bias_kv = torch["add_bias_kv"] != 0,
        .zero_attention = torch["add_zero_attn"] != 0,
        .scheme = name.starts_with("two_stage") ? HeadScheme::two_stage : HeadScheme::packed};
    return golden().make<MultiHeadAttention>(config, name + ".weights.", dtype);
  }

  // What forward gives, with weights and without, to a few roundings: sums of some ten products of numbers around 1, in
  // another order, each product rounded where the CPU target has no fused multiply-add (1.24e-5 there). `nan`: as torch
  // has rows that see no key.
  void expect_parity(const MultiHeadAttention& layer, const std::string& nan = "") const {
    const double tolerance = dtype == Dtype::f64 ? 1e-13 : 2e-5;
    const Tensor attn_mask = tensor("attn_mask"), padding = tensor("key_padding_mask");
    const TorchMasks masks({.attention = has("attn_mask") ? attn_mask.view() : TensorView(),
                            .key_padding = has("key_padding_mask") ? padding.view() : TensorView()},
                           layer.config().heads);
    MultiHeadAttentionOptions options{
        .mask = masks.mask(), .bias = masks.bias(), .empty_rows = nan.empty() ? EmptyRows::zero : EmptyRows::nan};
    EXPECT_LE(difference(layer.forward(query(), key(), value(), options), exact(nan + "out_f64")), tolerance);
    if (!has(nan + "weights_f64")) return;
    Tensor weights = tensor(nan + "weights_f64"), mean = tensor(nan + "mean_weights_f64");
    std::fill_n(weights.view().bytes(), weights.element_count() * static_cast<int>(size_of(dtype)), std::byte{0xff});
    options.weights = weights;
    options.mean_weights = mean;
    EXPECT_LE(difference(layer.forward(query(), key(), value(), options), exact(nan + "out_f64")), tolerance);
    EXPECT_LE(difference(weights, exact(nan + "weights_f64")), tolerance);
    EXPECT_LE(difference(mean, exact(nan + "mean_weights_f64")), tolerance);
  }
};

TEST(MultiHeadAttentionGolden, EveryCaseInEverySchemeAndType) {
  EXPECT_EQ(golden().metadata().size(), 29u);
  for (const auto& [name, config] : golden().metadata()) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      SCOPED_TRACE(name + " " + config + " " + std::string(name_of(dtype)));
      const Case test{name, dtype};
      const MultiHeadAttention layer = test.layer();
      test.expect_parity(layer);
      test.expect_parity(layer.with_scheme(HeadScheme::per_head));
      test.expect_parity(layer.with_scheme(HeadScheme::two_stage));
      test.expect_parity(layer.with_scheme(HeadScheme::two_stage).with_scheme(HeadScheme::packed));
    }
  }
}

// Where weights are asked for, torch leaves the NaN of a softmax over nothing: in rows that see no key, in all of their
// outputs, and nowhere else.
TEST(MultiHeadAttentionGolden, EmptyRowsAsTorchHasThem) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const Case test{"rows_without_keys", dtype};
    const std::vector<double> all = values(test.exact("nan_out_f64"));
    ASSERT_EQ(std::ranges::count_if(all, [](double x) { return std::isnan(x); }), 6 * 12);
    test.expect_parity(test.layer(), "nan_");
  }
}

// A part of the call sees no key then, and is no row of its own.
TEST(MultiHeadAttentionGolden, ExtraKeysLeaveNoRowEmpty) {
  const Case test{"extras_alone", Dtype::f32};
  const Tensor padding = test.tensor("key_padding_mask");
  const TorchMasks masks({.attention = {}, .key_padding = padding}, 3);
  Tensor weights = test.tensor("weights_f64");
  const MultiHeadAttentionOptions options{.mask = masks.mask(), .weights = weights, .empty_rows = EmptyRows::nan};
  EXPECT_LE(difference(test.layer().forward(test.query(), test.query(), options), test.exact("out_f64")), 1e-5);
  EXPECT_LE(difference(weights, test.exact("weights_f64")), 1e-5);
}

TEST(MultiHeadAttentionGolden, AsExactAsTorch) {
  for (const auto& [name, config] : golden().metadata()) {
    const Case test{name, Dtype::f32};
    if (test.has("attn_mask") || test.has("key_padding_mask")) continue;
    golden().expect_as_exact(test.layer().forward(test.query(), test.key(), test.value()), name);
  }
}

}  // namespace
}  // namespace qkv::testing
