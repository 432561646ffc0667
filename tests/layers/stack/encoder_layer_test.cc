// Parity with torch.nn.TransformerEncoderLayer: golden/encoder_layer/encoder_layer.safetensors, made by make.py beside
// it; ragged batches; names.
#include "attention/attention_testing.h"
#include "qkv/files.h"
#include "qkv/layers/transformer_layer.h"

namespace qkv {
namespace {

const std::map<std::string, Tensor>& golden_layer() {
  static const SafeTensors file = read_safetensors(QKV_TEST_DATA "/golden/encoder_layer/encoder_layer.safetensors");
  return file.tensors;
}

EncoderLayer make(const std::string& name, Dtype dtype) {
  std::map<std::string, Tensor> tensors;
  const std::string prefix = name + ".weights.";
  for (const auto& [key, tensor] : golden_layer()) {
    if (key.starts_with(prefix)) tensors[key.substr(prefix.size())] = tensor;
  }
  Weights weights(std::move(tensors), name, dtype);
  EncoderLayer layer({.model_dim = 12,
                      .heads = 3,
                      .ff_dim = 20,
                      .activation = name == "relu" ? Activation::relu : Activation::gelu,
                      .epsilon = 1e-6},
                     weights);
  weights.expect_empty();
  return layer;
}

TEST(EncoderLayer, AgreesWithTorch) {
  for (const std::string name : {"relu", "gelu"}) {
    const TensorView x = golden_layer().at(name + ".x"), exact = golden_layer().at(name + ".out_f64");
    EXPECT_LE(testing::difference(make(name, Dtype::f64).forward(convert(x, Dtype::f64)), exact), 1e-13);
    // At most twice as far as torch's own float32, above a floor of a few roundings.
    const double torch_error = testing::difference(golden_layer().at(name + ".out"), exact);
    EXPECT_LE(testing::difference(make(name, Dtype::f32).forward(x), exact),
              2 * torch_error + 5e-7 * testing::largest(exact));
  }
}

TEST(EncoderLayer, RaggedIsEachSequenceAlone) {
  Random random(3);
  const EncoderLayer layer = make("gelu", Dtype::f32);
  const std::vector<std::int64_t> lengths{5, 1, 0, 130, 9};
  const Tensor x = testing::normal(random, {145, 12}), offsets = offsets_of(lengths);
  const Tensor out = layer.forward({x, offsets}, {.threads = 2});
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    const Tensor alone = layer.forward(x.view().slice(0, begin, begin + length), {.threads = 1});
    EXPECT_TRUE(testing::same_bits(out.view().slice(0, begin, begin + length), alone));
    begin += length;
  }
}

TEST(EncoderLayer, ListsItsParametersAsTorchDoes) {
  std::size_t count = 0;
  make("relu", Dtype::f32).visit([&](const std::string& name, const Parameter& own) {
    EXPECT_TRUE(testing::same_bits(own.value, golden_layer().at("relu.weights." + name))) << name;
    ++count;
  });
  EXPECT_EQ(count, 12u);
}

}  // namespace
}  // namespace qkv
