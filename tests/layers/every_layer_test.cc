// What every layer is asked: gradients are slopes, parameters are listed and written, threads change no bit, what comes
// beside a sequence does not either, work ends where it is asked to; and what torch gives.
#include "host_environment.h"
#include "layers/asked_layer.h"
#include "layers/golden_file.h"
#include "layers/stack/layer_reference.h"
#include "stop_for_test.h"

namespace qkv::testing {
namespace {

struct Row {
  std::string name;
  Maker make;
  double tolerance = 1e-8;  // of gradients
};

// A layer that has work for several threads.
struct LargeRow {
  std::string name;
  Maker make;
  std::vector<std::int64_t> lengths;
  double work = 0;     // forward on one thread, in multiply-adds, where those are what takes the time
  bool mixes = false;  // rows on purpose
};

// As gtest wants it.
template <class Of>
std::string name_of_row(const ::testing::TestParamInfo<Of>& row) {
  std::string name = row.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
}

class EveryLayer : public ::testing::TestWithParam<Row> {
 protected:
  static Request padded() { return {.lengths = {3, 3}, .memory = {4, 4}, .ragged = false}; }
  static Request ragged() { return {.lengths = {2, 0, 3}, .memory = {0, 2, 3}, .dropout = {.p = 0.3, .seed = 5}}; }
  static std::unique_ptr<AskedLayer> make(const Request& request) { return GetParam().make(request); }
};

TEST_P(EveryLayer, GradientsAreSlopes) {
  for (const Request& request : {padded(), ragged()}) {
    const auto layer = make(request);
    const bool same = same_bits(layer->run(Pass::use, 0)[0], layer->run(Pass::train, 0)[0]);
    EXPECT_EQ(same, !layer->drops || request.dropout.p == 0);
    expect_slopes(*layer, GetParam().tolerance);
  }
}

// Each that was taken once, under its name; what is written reaches the next forward.
TEST_P(EveryLayer, ListsItsParametersAndTakesOthers) {
  const auto layer = make(padded());
  std::vector<std::string> visited, updated;
  layer->visit([&](const std::string& name, const Parameter& own) {
    visited.push_back(name);
    EXPECT_FALSE(own.has_gradient()) << name;
    EXPECT_TRUE(same_bits(own.value, layer->drawn.tensors.at(name))) << name;
  });
  EXPECT_EQ(visited.size(), layer->drawn.tensors.size());
  const Tensor before = layer->run(Pass::use, 0)[0];
  layer->update([&](const std::string& name, Parameter& own) {
    updated.push_back(name);
    own.want_gradient();
    for (std::int64_t i = 0; i < own.value.element_count(); ++i) own.value.data<double>()[i] += 0.125;
  });
  EXPECT_EQ(visited, updated);
  Request other = padded();
  layer->visit([&](const std::string& name, const Parameter& own) {
    other.weights[name] = own.value;
    EXPECT_EQ(own.gradient.shape(), own.value.shape()) << name;
    expect_zeros(own.gradient);
  });
  const Tensor after = layer->run(Pass::use, 0)[0];
  EXPECT_TRUE(same_bits(after, make(other)->run(Pass::use, 0)[0]));
  EXPECT_EQ(difference(after, before) > 1e-3, !visited.empty());
}

TEST_P(EveryLayer, PaddedIsRaggedOfEqualLengths) {
  Request request = padded();
  const auto one = make(request);
  request.ragged = true;
  const auto other = make(request);
  for (std::size_t i = 0; i < one->inputs.size(); ++i) {
    other->inputs[i] = Tensor::copy(one->inputs[i].view().reshape(other->inputs[i].shape()));
  }
  const Outputs rows = one->run(Pass::use, 0), together = other->run(Pass::use, 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(values(rows[i]), values(together[i]));
    EXPECT_EQ(rows[i].size(-1), together[i].size(-1));
  }
}

// Gradients that nobody wants are left out, and the one that is wanted stays the same.
TEST_P(EveryLayer, GivesEachGradientAlone) {
  const auto layer = make(ragged());
  const Training done(*layer, 0);
  Trained<AskedLayer>{*layer}.visit([&](const std::string& wanted, const Parameter& own) {
    const auto other = make(ragged());
    other->update([&](const std::string& name, Parameter& parameter) {
      if (name == wanted) parameter.want_gradient();
    });
    other->run(Pass::train, 0);
    other->backward(done.grad_out, Places(layer->inputs.size()), 0);
    other->visit([&](const std::string& name, const Parameter& parameter) {
      EXPECT_EQ(parameter.has_gradient(), name == wanted);
      EXPECT_TRUE(name != wanted || same_bits(parameter.gradient, own.gradient)) << name;
    });
  });
}

class LargeLayer : public ::testing::TestWithParam<LargeRow> {
 protected:
  static std::unique_ptr<AskedLayer> make(const Request& request) { return GetParam().make(request); }

  static Request large(const Dropout& dropout) {
    Request request{.dtype = Dtype::f32, .lengths = GetParam().lengths, .dropout = dropout};
    for (std::size_t i = 0; i < request.lengths.size(); ++i) request.memory.push_back(i % 2 == 0 ? 100 : 299);
    return request;
  }

  // All that comes of one training.
  static std::vector<Tensor> results(int threads) { return results(make(large({.p = 0.2, .seed = 4})), threads); }
  static std::vector<Tensor> results(const std::unique_ptr<AskedLayer>& layer, int threads) {
    const Training done(*layer, threads);
    std::vector<Tensor> all = done.out;
    all.insert(all.end(), done.grad_in.begin(), done.grad_in.end());
    for (const Tensor& out : layer->run(Pass::use, threads)) all.push_back(out);
    layer->visit([&](const std::string&, const Parameter& own) {
      all.push_back(own.value);
      all.push_back(own.gradient);
    });
    return all;
  }
};

TEST_P(LargeLayer, HasTheSameBitsOnAnyThreads) {
  const std::vector<Tensor> one = results(1);
  for (const int threads : {2, 5}) {
    const std::vector<Tensor> many = results(threads);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(many[i], one[i])) << threads << ", " << i;
  }
}

#if defined(__x86_64__) || defined(__aarch64__)
// Of inputs that are all subnormal, and without biases: where these numbers count as 0, so does every output.
TEST_P(LargeLayer, HasTheSameBitsWhereTheHostFlushes) {
  const auto make_subnormal = [] {
    auto layer = make(large({}));
    layer->update([](const std::string& name, Parameter& own) {
      if (name.ends_with("bias")) own.value = Tensor::zeros(own.value.shape(), own.value.dtype());
    });
    for (Tensor& input : layer->inputs) {
      if (input.dtype() != Dtype::f32) continue;
      for (std::int64_t i = 0; i < input.element_count(); ++i) input.data<float>()[i] *= 1e-39f;
    }
    return layer;
  };
  const auto other = make_subnormal();
  const std::vector<Tensor> wanted = results(make_subnormal(), 1);
  const HostEnvironment host(HostEnvironment::Kind::flushes);
  const std::vector<Tensor> got = results(other, 1);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(same_bits(got[i], wanted[i])) << i;
}
#endif

// A sequence of NaN among others is NaN in all of its results, and in no other.
TEST_P(LargeLayer, GivesASequenceWhatItGivesItAlone) {
  if (GetParam().mixes) return;
  const std::vector<std::int64_t> lengths{5, 3, 0, 1, 150, 9}, memory{4, 2, 3, 6, 17, 1};
  std::vector<std::vector<Tensor>> inputs(3), outputs(3), grad_out(3), grad_in(3);
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const auto alone =
        make({.dtype = Dtype::f32, .lengths = {lengths[b]}, .memory = {memory[b]}, .ragged = false, .seed = 10 + b});
    const auto spoil = [&](Tensor& tensor) {
      if (b == 1) tensor = filled(tensor.shape(), kNan);
    };
    std::ranges::for_each(alone->inputs, spoil);
    const Outputs out = alone->run(Pass::train, 1);
    Outputs grad = normal_like(out, b);
    std::ranges::for_each(grad, spoil);
    std::vector<Tensor> gradients = zeros_like(alone->inputs);
    alone->backward(grad, places(gradients), 1);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      inputs[i].push_back(alone->inputs[i]);
      grad_in[i].push_back(gradients[i]);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      outputs[i].push_back(out[i]);
      grad_out[i].push_back(grad[i]);
      if (b == 1) {
        EXPECT_TRUE(std::ranges::all_of(values(out[i]), [](double x) { return std::isnan(x); }));
      }
    }
  }
  const auto whole = make({.dtype = Dtype::f32, .lengths = lengths, .memory = memory});
  const auto join = [&](const std::vector<Tensor>& parts, std::size_t i) {
    return joined(parts, i == 0 ? 0 : whole->batch_axis);
  };
  for (std::size_t i = 0; i < whole->inputs.size(); ++i) whole->inputs[i] = join(inputs[i], i);
  std::vector<Tensor> gradients = zeros_like(whole->inputs);
  Outputs grad;
  const Outputs trained = whole->run(Pass::train, 2), used = whole->run(Pass::use, 2);
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const Tensor wanted = join(outputs[i], i);
    EXPECT_EQ(trained[i].shape(), wanted.shape()) << i;
    EXPECT_EQ(difference(trained[i], wanted), 0.0) << i;
    EXPECT_EQ(difference(used[i], wanted), 0.0) << i;
    grad.push_back(join(grad_out[i], i));
  }
  whole->backward(grad, places(gradients), 2);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_EQ(difference(gradients[i], join(grad_in[i], i)), 0.0) << "gradient " << i;
  }
}

TEST_P(LargeLayer, EndsWhereItIsAskedTo) {
  const auto layer = make(large({}));
  Training done(*layer, 1);
  test::expect_stops([&] { layer->backward(done.grad_out, places(done.grad_in), 1); }, 2 * GetParam().work);
  for (const Pass pass : {Pass::use, Pass::train}) {
    test::expect_stops([&] { layer->run(pass, 1); }, GetParam().work);
  }
}

constexpr RotaryConfig kSlow{.base = 50}, kNeighbours{.base = 20, .pairs = RotaryPairs::neighbours};

std::vector<Row> convolutions() {
  return {{"conv1d", conv1d({.in = 3, .out = 4, .kernel = 3, .bias = false})},
          {"conv1d causal", conv1d({.in = 4, .out = 6, .kernel = 3, .dilation = 2, .causal = true})}};
}
INSTANTIATE_TEST_SUITE_P(Convolution, EveryLayer, ::testing::ValuesIn(convolutions()), name_of_row<Row>);

std::vector<Row> recurrent_layers() {
  std::vector<Row> rows;
  for (const auto& [name, cell] : recurrent_cells()) {
    for (const int directions : {1, 2}) {
      const std::string both = name + " in " + std::to_string(directions);
      RecurrentConfig config{.cell = cell, .in = 2, .hidden = 4, .layers = 2, .directions = directions};
      rows.push_back({both, recurrent(config)});
      config.bias = false;
      rows.push_back({both + " without bias", recurrent(config)});
    }
  }
  return rows;
}
INSTANTIATE_TEST_SUITE_P(Recurrent, EveryLayer, ::testing::ValuesIn(recurrent_layers()), name_of_row<Row>);

std::vector<Row> other_layers() {
  std::vector<Row> rows{
      {"linear", linear({.in = 3, .out = 5})},
      {"linear without bias", linear({.in = 3, .out = 5, .bias = false})},
      {"layer norm", norm({.dim = 5, .epsilon = 1e-3})},
      {"rms norm", norm({.dim = 5, .epsilon = 1e-3, .normalization = Normalization::rms})},
      {"heads with a bias", heads({.layer = {.model_dim = 4, .heads = 2}, .cross = true, .biased = true})},
      {"rotary heads", heads({.layer = {.model_dim = 4, .heads = 2, .rotary = kSlow}})},
      {"rotary neighbours", heads({.layer = {.model_dim = 4, .heads = 2, .rotary = kNeighbours}, .cross = true})}};
  MultiHeadAttentionConfig self{.model_dim = 4, .heads = 2}, grouped = grouped_heads();
  MultiHeadAttentionConfig cross{.model_dim = 4,
                                 .heads = 2,
                                 .head_dim = 3,
                                 .key_input_dim = 5,
                                 .value_input_dim = 2,
                                 .out_dim = 3,
                                 .bias_kv = true,
                                 .zero_attention = true};
  for (const auto& [name, scheme] : {std::pair("packed ", HeadScheme::packed),
                                     {"own ", HeadScheme::per_head},
                                     {"two stage ", HeadScheme::two_stage}}) {
    self.scheme = cross.scheme = grouped.scheme = scheme;
    rows.push_back({name + std::string("causal heads"), heads({.layer = self, .mask = Mask::causal()})});
    rows.push_back({name + std::string("cross heads"), heads({.layer = cross, .cross = true, .biased = true})});
    rows.push_back({name + std::string("grouped heads"), heads({.layer = grouped, .cross = true})});
  }
  for (const auto& [name, config] : layer_options()) {
    rows.push_back({"encoder " + name, encoder(config), 1e-7});
    if (name == "plain" || name == "pre" || name == "both" || name == "all") {
      rows.push_back({"decoder " + name, decoder(config), 1e-7});
    }
  }
  TransformerLayerConfig layer = small_layer({.norm_order = NormOrder::pre, .rotary = kSlow});
  layer.model_dim = 4;
  layer.heads = 2;
  rows.push_back({"transformer", transformer({.layer = layer, .encoder_layers = 1, .decoder_layers = 1}), 1e-7});
  return rows;
}
INSTANTIATE_TEST_SUITE_P(Layers, EveryLayer, ::testing::ValuesIn(other_layers()), name_of_row<Row>);

std::vector<LargeRow> large_convolutions() {
  return {{"conv1d", conv1d({.in = 70, .out = 66, .kernel = 3}), {401, 401, 1201}, 1997.0 * 70 * 66 * 3},
          {"conv1d causal", conv1d({.in = 12, .out = 9, .kernel = 3, .dilation = 4, .causal = true}), {401, 401, 401}}};
}
INSTANTIATE_TEST_SUITE_P(Convolution, LargeLayer, ::testing::ValuesIn(large_convolutions()), name_of_row<LargeRow>);

std::vector<LargeRow> large_layers() {
  const MultiHeadAttentionConfig packed{.model_dim = 12, .heads = 4},
      own{.model_dim = 12, .heads = 4, .scheme = HeadScheme::per_head},
      rotary{.model_dim = 12, .heads = 3, .rotary = kSlow};
  const TransformerLayerConfig layer{.model_dim = 16, .heads = 4, .ff_dim = 40};
  std::vector<LargeRow> rows{
      {"linear", linear({.in = 96, .out = 384}), {1100}, 1100.0 * 96 * 384},
      {"layer norm", norm({.dim = 40}), {5000}},
      {"heads", heads({.layer = packed, .mask = Mask::causal()}), {300, 300}},
      {"own heads", heads({.layer = own, .mask = Mask::causal()}), {300, 300}},
      {"rotary heads", heads({.layer = rotary, .mask = Mask::causal()}), {300, 17, 283}},
      {"encoder", encoder(layer), {300, 17, 283}},
      {"decoder", decoder(layer), {300, 17, 283}},
      {"transformer",
       transformer({.layer = layer, .encoder_layers = 2, .decoder_layers = 1, .final_norms = false}),
       {100, 199, 1}}};
  for (const auto& [name, cell] : recurrent_cells()) {
    // Once a step of each layer.
    rows.push_back({name,
                    recurrent({.cell = cell, .in = 9, .hidden = 37, .layers = 2, .directions = 2}),
                    {5, 0, 9, 3, 1, 9, 14},
                    2 * 14.0 * kStopWork});
  }
  return rows;
}
INSTANTIATE_TEST_SUITE_P(Layers, LargeLayer, ::testing::ValuesIn(large_layers()), name_of_row<LargeRow>);

const std::vector<std::string> kInputs{"x", "h", "c"}, kOutputs{"out", "h_n", "c_n"},
    kGradients{"grad_out", "grad_h_n", "grad_c_n"};

// Those parts that a case of a file has.
std::vector<Tensor> read_parts(const GoldenFile& golden, const std::string& name, const std::vector<std::string>& parts,
                               Dtype dtype) {
  std::vector<Tensor> all;
  for (const std::string& part : parts) {
    if (golden.has(name + part)) all.push_back(golden.get(name + part, dtype));
  }
  return all;
}

// `weights` and `gradients` are what stands before the names of parameters.
void expect_golden(const GoldenFile& golden, const std::string& name, const Maker& make, const std::string& weights,
                   const std::string& gradients) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    SCOPED_TRACE(name + std::string(name_of(dtype)));
    const double part = dtype == Dtype::f32 ? 1e-5 : 1e-12;
    Request request{.dtype = dtype, .lengths = {1}, .ragged = golden.has(name + "lengths")};
    if (request.ragged) {
      const Tensor& lengths = golden.at(name + "lengths");
      request.lengths.assign(lengths.data<std::int64_t>(), lengths.data<std::int64_t>() + lengths.element_count());
    }
    request.weights = golden.under(name + weights, dtype);
    const std::size_t given = request.weights.size();
    const auto layer = make(request);
    EXPECT_EQ(layer->drawn.tensors.size(), given);  // no other is taken
    layer->inputs = read_parts(golden, name, kInputs, dtype);
    want_gradients(*layer);
    const Outputs outputs = layer->run(Pass::train, 0);
    std::vector<Tensor> grad_in = zeros_like(layer->inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) golden.expect(outputs[i], name + kOutputs[i], part);
    layer->backward(read_parts(golden, name, kGradients, dtype), places(grad_in), 0);
    for (std::size_t i = 0; i < grad_in.size(); ++i) golden.expect(grad_in[i], name + "grad_" + kInputs[i], part);
    layer->visit([&](const std::string& own, const Parameter& parameter) {
      if (parameter.has_gradient()) golden.expect(parameter.gradient, name + gradients + own, part);
    });
  }
}

TEST(ConvolutionGolden, IsTorchs) {
  const GoldenFile golden("convolution");
  expect_golden(golden, "conv1d.plain.", conv1d({.in = 5, .out = 7, .kernel = 3, .dilation = 2, .bias = false}), "",
                "grad_");
  expect_golden(golden, "conv1d.causal.", conv1d({.in = 4, .out = 6, .kernel = 3, .dilation = 4, .causal = true}), "",
                "grad_");
}

// One layer in one direction without bias, and two in both with it.
TEST(RecurrentGolden, IsTorchs) {
  const GoldenFile golden("recurrent");
  for (const auto& [name, cell] : recurrent_cells()) {
    for (const int size : {1, 2}) {
      const RecurrentConfig config{
          .cell = cell, .in = 3, .hidden = 5, .layers = size, .directions = size, .bias = size == 2};
      expect_golden(golden, name + "_" + std::to_string(size) + ".", recurrent(config), "weights.", "gradients.");
    }
  }
}

}  // namespace
}  // namespace qkv::testing
