// Layers against torch, outputs and all gradients, in both types.
#include "jacobian.h"
#include "layers/asked_layer.h"
#include "layers/golden_file.h"

namespace qkv::testing {
namespace {

// How a file names inputs and outputs, and their gradients; and its parameters.
struct GoldenNames {
  std::vector<std::string> inputs, outputs;
  std::string weights, gradients;
};

std::vector<Tensor> read_all(const GoldenFile& golden, const std::string& name, const std::vector<std::string>& parts,
                             Dtype dtype) {
  std::vector<Tensor> all;
  for (const std::string& part : parts) {
    if (golden.has(name + part)) all.push_back(golden.get(name + part, dtype));
  }
  return all;
}

void expect_golden(const GoldenFile& golden, const GoldenNames& names, const std::string& name, const Maker& make) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    SCOPED_TRACE(name + std::string(name_of(dtype)));
    const double part = dtype == Dtype::f32 ? 1e-5 : 1e-12;
    Request request{.dtype = dtype, .lengths = {1}, .ragged = golden.has(name + "lengths")};
    if (request.ragged) {
      const Tensor& lengths = golden.at(name + "lengths");
      request.lengths.assign(lengths.data<std::int64_t>(), lengths.data<std::int64_t>() + lengths.element_count());
    }
    request.weights = golden.under(name + names.weights, dtype);
    const std::size_t given = request.weights.size();
    const auto layer = make(request);
    EXPECT_EQ(layer->drawn.tensors.size(), given);  // no other is taken
    layer->inputs = read_all(golden, name, names.inputs, dtype);
    want_gradients(*layer);
    const Outputs outputs = layer->run(Pass::train, 0);
    std::vector<std::string> grad_out, grad_in;
    std::vector<Tensor> gradients;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      golden.expect(outputs[i], name + names.outputs[i], part);
      grad_out.push_back("grad_" + names.outputs[i]);
    }
    for (const Tensor& input : layer->inputs) gradients.push_back(Tensor::zeros(input.shape(), dtype));
    layer->backward(read_all(golden, name, grad_out, dtype), {gradients.begin(), gradients.end()}, 0);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      golden.expect(gradients[i], name + "grad_" + names.inputs[i], part);
    }
    layer->visit([&](const std::string& own, const Parameter& parameter) {
      if (parameter.has_gradient()) golden.expect(parameter.gradient, name + names.gradients + own, part);
      const std::string next = name + "next_" + own.substr(own.find('_') + 1);  // of running statistics
      if (golden.has(next)) golden.expect(parameter.value, next, part);
    });
  }
}

TEST(ConvolutionGolden, IsTorchs) {
  const std::vector<std::pair<std::string, Maker>> rows{
      {"conv1d.same.", conv1d({.in = 5, .out = 7, .kernel = 3, .padding = 1})},
      {"conv1d.strided.",
       conv1d({.in = 6, .out = 4, .kernel = 4, .stride = 3, .padding = 2, .dilation = 2, .groups = 2, .bias = false})},
      {"conv1d.causal.", conv1d({.in = 4, .out = 6, .kernel = 3, .dilation = 4, .causal = true})},
      {"conv1d.depthwise.", conv1d({.in = 5, .out = 5, .kernel = 7, .padding = 3, .groups = 5})},
      {"conv2d.same.", conv2d({.in = 3, .out = 8, .kernel = {3, 3}, .padding = {1, 1}})},
      {"conv2d.uneven.", conv2d({.in = 4,
                                 .out = 6,
                                 .kernel = {3, 2},
                                 .stride = {2, 1},
                                 .padding = {1, 3},
                                 .dilation = {1, 2},
                                 .groups = 2})},
      {"conv2d.patches.", conv2d({.in = 3, .out = 10, .kernel = {4, 4}, .stride = {4, 4}})},
      {"pool1d.max.", pool1d({.kernel = 3, .stride = 2, .padding = 1})},
      {"pool1d.average.", pool1d({.pooling = PoolKind::average, .kernel = 2})},
      {"pool2d.max.", pool2d({.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}})},
      {"pool2d.average.",
       pool2d({.pooling = PoolKind::average, .kernel = {2, 3}, .stride = {1, 2}, .padding = {1, 1}})},
      {"batch_norm.running.", batch_norm({.dim = 5})},
      {"batch_norm.training.", batch_norm_in_training({.dim = 5, .momentum = 0.3})},
      {"batch_norm.pictures.", batch_norm_in_training({.dim = 4, .epsilon = 1e-3})}};
  const GoldenFile golden("convolution");
  for (const auto& [name, make] : rows) expect_golden(golden, {{"x"}, {"out"}, "", "grad_"}, name, make);
}

// One layer in one direction without bias, and two in both with it.
TEST(RecurrentGolden, IsTorchs) {
  const GoldenFile golden("recurrent");
  const GoldenNames names{{"x", "h", "c"}, {"out", "h_n", "c_n"}, "weights.", "gradients."};
  for (const auto& [name, cell] : {std::pair<std::string, RecurrentCell>("rnn_tanh", RecurrentCell::rnn_tanh),
                                   {"rnn_relu", RecurrentCell::rnn_relu},
                                   {"lstm", RecurrentCell::lstm},
                                   {"gru", RecurrentCell::gru}}) {
    for (const int size : {1, 2}) {
      expect_golden(
          golden, names, name + "_" + std::to_string(size) + ".",
          recurrent({.cell = cell, .in = 3, .hidden = 5, .layers = size, .directions = size, .bias = size == 2}));
    }
  }
}

TEST(EncoderLayerGolden, IsTorchs) {
  const GoldenFile golden("encoder_layer");
  for (const auto& [name, activation] :
       {std::pair<std::string, Activation>("relu", Activation::relu), {"gelu", Activation::gelu}}) {
    const EncoderLayerConfig config{
        .model_dim = 12, .heads = 3, .ff_dim = 20, .activation = activation, .epsilon = 1e-6};
    const auto out = [&](Dtype dtype) {
      return golden.make<EncoderLayer>(config, name + ".weights.", dtype).forward(golden.get(name + ".x", dtype));
    };
    EXPECT_LE(difference(out(Dtype::f64), golden.at(name + ".out_f64")), 1e-13);
    golden.expect_as_exact(out(Dtype::f32), name);
  }
}

}  // namespace
}  // namespace qkv::testing
