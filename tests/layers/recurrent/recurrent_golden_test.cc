// Parity of recurrent layers with torch's: golden/recurrent/recurrent.safetensors, made by make.py there.
#include "jacobian.h"
#include "layers/recurrent/recurrent_testing.h"
#include "qkv/files.h"

namespace qkv {
namespace {

using testing::make_recurrent;

const std::map<std::string, Tensor>& golden() {
  static const SafeTensors file = read_safetensors(QKV_TEST_DATA "/golden/recurrent/recurrent.safetensors");
  return file.tensors;
}

class RecurrentGolden : public ::testing::TestWithParam<std::tuple<RecurrentCell, int, Dtype>> {
 protected:
  RecurrentGolden() {
    const auto [cell, size, dtype] = GetParam();
    const char* names[] = {"rnn_tanh", "rnn_relu", "lstm", "gru"};
    name_ = std::string(names[static_cast<int>(cell)]) + (size == 1 ? "_1." : "_2.");
    config_ = {.cell = cell, .in = 3, .hidden = 5, .layers = size, .directions = size, .bias = size == 2};
  }
  bool has(const std::string& part) const { return golden().contains(name_ + part); }
  Tensor get(const std::string& part) const {
    return has(part) ? convert(golden().at(name_ + part), std::get<2>(GetParam())) : Tensor();
  }
  // Within 1e-12 (f64) or 1e-5 (f32) of the largest element.
  void expect_same(const Tensor& given, const std::string& part) const {
    ASSERT_TRUE(has(part)) << part;
    const Tensor wanted = convert(golden().at(name_ + part), Dtype::f64);
    ASSERT_EQ(given.shape(), wanted.shape()) << part;
    double largest = 0;
    for (const double value : testing::values(wanted)) largest = std::max(largest, std::abs(value));
    EXPECT_LE(testing::difference(given, wanted), largest * (given.dtype() == Dtype::f64 ? 1e-12 : 1e-5)) << part;
  }

  std::string name_;
  RecurrentConfig config_;
};

TEST_P(RecurrentGolden, ForwardAndBackward) {
  const Dtype dtype = std::get<2>(GetParam());
  const bool is_lstm = config_.cell == RecurrentCell::lstm;
  std::map<std::string, Tensor> tensors;
  for (const auto& [key, tensor] : golden()) {
    const std::string start = name_ + "weights.";
    if (key.starts_with(start)) tensors[key.substr(start.size())] = tensor;
  }
  Weights weights(tensors, "golden", dtype);
  Recurrent layer = make_recurrent(config_, weights);
  weights.expect_empty();
  const Tensor lengths = golden().at(name_ + "lengths");
  const Tensor offsets = offsets_of(std::span(lengths.data<std::int64_t>(), static_cast<std::size_t>(lengths.size(0))));
  const Tensor x = get("x"), h = get("h"), c = get("c");
  const Sequences batch(x.view(), offsets.view());
  const RecurrentStates<TensorView> initial{.hidden = h, .cell = is_lstm ? c.view() : TensorView()};

  const RecurrentOutput plain = layer.forward(batch, initial);
  expect_same(plain.out, "out");
  expect_same(plain.states.hidden, "h_n");
  if (is_lstm) expect_same(plain.states.cell, "c_n");

  RecurrentSaved saved;
  const RecurrentOutput kept = layer.forward(batch, initial, {}, saved);
  EXPECT_TRUE(testing::same_bits(kept.out, plain.out));
  testing::want_gradients(layer);
  const Tensor grad_out = get("grad_out"), grad_h_n = get("grad_h_n"), grad_c_n = get("grad_c_n");
  Tensor grad_x = Tensor::zeros(x.shape(), dtype), grad_h = Tensor::zeros(h.shape(), dtype);
  Tensor grad_c = Tensor::zeros(c.shape(), dtype);
  layer.backward(batch, initial, {}, saved,
                 {.out = grad_out, .states = {.hidden = grad_h_n, .cell = is_lstm ? grad_c_n.view() : TensorView()}},
                 {.x = grad_x, .initial = {.hidden = grad_h, .cell = is_lstm ? grad_c.view() : MutableTensorView()}});
  expect_same(grad_x, "grad_x");
  expect_same(grad_h, "grad_h");
  if (is_lstm) expect_same(grad_c, "grad_c");
  layer.visit([&](const std::string& name, const Parameter& own) { expect_same(own.gradient, "gradients." + name); });
}

INSTANTIATE_TEST_SUITE_P(All, RecurrentGolden,
                         ::testing::Combine(::testing::Values(RecurrentCell::rnn_tanh, RecurrentCell::rnn_relu,
                                                              RecurrentCell::lstm, RecurrentCell::gru),
                                            ::testing::Values(1, 2), ::testing::Values(Dtype::f32, Dtype::f64)));

}  // namespace
}  // namespace qkv
