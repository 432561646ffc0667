// Conv1d against plain loops in double, every option crossed with every other; more rows and channels than a
// block has; what windows see; first weights; refusals.
#include "lab/layers/convolution.h"

#include "io/files_for_test.h"
#include "layers/asked_layer.h"
#include "qkv/layers/initial_weights.h"

namespace qkv::testing {
namespace {

// To a part of the largest number.
void expect_near(const TensorView& given, const std::vector<double>& wanted, const std::string& what = "") {
  const Tensor expected = Tensor::of({std::ssize(wanted)}, wanted);
  const double part = given.dtype() == Dtype::f32 ? 1e-5 : 1e-12;
  EXPECT_LE(difference(given, expected), part * largest(expected)) << what;
}

using List = std::vector<std::int64_t>;

// f of every combination of one number of each list.
template <class F>
void for_all(const F& f) {
  f();
}
template <class F, class... Lists>
void for_all(const F& f, const List& first, const Lists&... others) {
  for (const std::int64_t number : first) for_all([&](auto... more) { f(number, more...); }, others...);
}

// Forward and backward against plain loops.
void expect_plain(const Conv1dConfig& config, const Request& request) {
  const std::int64_t reach = (config.kernel - 1) * config.dilation, before = config.causal ? reach : 0;
  PlainAsked<Conv1d> layer(config, Dims{config.in}, request);
  const Training done(layer, 0);
  const Tensors& own = layer.drawn.tensors;
  const std::vector<double> x = values(layer.inputs[0]), weight = values(own.at("weight"));
  const std::vector<double> grad_out = values(done.grad_out[0]);
  const std::vector<double> bias = config.bias ? values(own.at("bias")) : std::vector<double>();
  std::vector<double> out, grad_x(x.size()), grad_weight(weight.size()),
      grad_bias(static_cast<std::size_t>(config.out));
  const Tensor ends = layer.layer.out_offsets(layer.offsets);
  std::int64_t first = 0, end = 0;  // rows of the input and of the output
  for (std::size_t b = 0; b < request.lengths.size(); first += request.lengths[b++]) {
    const std::int64_t length = request.lengths[b], begin = end;
    if (length + before > reach) end += length + before - reach;
    EXPECT_EQ(ends.data<std::int32_t>()[b + 1], end);
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t o = 0; o < config.out; ++o) {
        const double grad = grad_out[out.size()];
        double sum = config.bias ? bias[static_cast<std::size_t>(o)] : 0;
        grad_bias[static_cast<std::size_t>(o)] += grad;
        for (std::int64_t k = 0; k < config.kernel; ++k) {
          const std::int64_t at = t - begin + k * config.dilation - before;
          if (at < 0 || at >= length) continue;
          for (std::int64_t c = 0; c < config.in; ++c) {
            const auto i = static_cast<std::size_t>((first + at) * config.in + c);
            const auto w = static_cast<std::size_t>((o * config.in + c) * config.kernel + k);
            sum += weight[w] * x[i];
            grad_x[i] += weight[w] * grad;
            grad_weight[w] += grad * x[i];
          }
        }
        out.push_back(sum);
      }
    }
  }
  expect_near(done.out[0], out, "out");
  expect_near(done.grad_in[0], grad_x, "grad_x");
  layer.visit([&](const std::string& name, const Parameter& parameter) {
    expect_near(parameter.gradient, name == "bias" ? grad_bias : grad_weight, name);
  });
}

struct Choices {
  std::int64_t of(const List& choices) { return choices[random.below(choices.size())]; }
  bool coin() { return random.below(2) == 1; }
  Dtype dtype() { return coin() ? Dtype::f32 : Dtype::f64; }

  Random random;
};

QKV_ON_EACH_TARGET(ConvolutionTargets);

TEST_P(ConvolutionTargets, SequencesWithEveryOption) {
  Choices choose{Random(1)};
  const List lengths{0, 1, 2, 3, 5, 8, 13};
  const auto expect = [&](std::int64_t kernel, std::int64_t dilation, std::int64_t causal) {
    SCOPED_TRACE(::testing::Message() << "kernel " << kernel << " dilation " << dilation << " causal " << causal);
    const Conv1dConfig config{.in = choose.of({1, 2, 5}),
                              .out = choose.of({1, 3, 17}),
                              .kernel = kernel,
                              .dilation = dilation,
                              .bias = choose.coin(),
                              .causal = causal == 1};
    const std::int64_t length = choose.of(lengths);
    expect_plain(config, {.dtype = choose.dtype(), .lengths = {length, length}, .ragged = false});
    expect_plain(config, {.dtype = choose.dtype(), .lengths = {choose.of(lengths), 1, choose.of(lengths), 0, 4}});
  };
  for_all(expect, List{1, 2, 3, 6}, List{1, 2, 16}, List{0, 1});
}

// More than a block of rows, of a sum and of channels.
TEST_P(ConvolutionTargets, ManyRowsAndChannels) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    expect_plain({.in = 70, .out = 50, .kernel = 3, .causal = true},
                 {.dtype = dtype, .lengths = {300, 1, 0, 129, 250}});
    expect_plain({.in = 130, .out = 2, .kernel = 2, .dilation = 3}, {.dtype = dtype, .lengths = {1200}});
  }
}

TEST(Convolution, TakesAnyStrides) {
  const PlainAsked<Conv1d> asked(Conv1dConfig{.in = 3, .out = 4, .kernel = 2}, Dims{3}, {.dtype = Dtype::f32});
  const Conv1d& conv = asked.layer;
  Random random(4);
  const Tensor channels_first = normal(random, {2, 3, 9}), wide = normal(random, {9, 8});
  for (const TensorView& x : {channels_first.view().transpose(1, 2), wide.view().slice(1, 2, 5)}) {
    EXPECT_TRUE(same_bits(conv.forward(x), conv.forward(Tensor::copy(x))));
  }
}

// A NaN of one place reaches the windows that see it.
TEST(Convolution, NanStaysInItsWindows) {
  for (const Conv1dConfig& config : {Conv1dConfig{.in = 12, .out = 9, .kernel = 3},
                                     Conv1dConfig{.in = 12, .out = 9, .kernel = 3, .dilation = 4, .causal = true}}) {
    PlainAsked<Conv1d> layer(config, Dims{12}, {.dtype = Dtype::f32, .lengths = {6, 20, 7}});
    put(layer.inputs[0], {6 + 9, 0}, kNan);
    const Tensor out = layer.run(Pass::use, 0)[0], ends = layer.layer.out_offsets(layer.offsets);
    const std::int32_t* cuts = ends.data<std::int32_t>();
    const std::int64_t before = config.causal ? (config.kernel - 1) * config.dilation : 0;
    for (std::int64_t row = 0; row < out.size(0); ++row) {
      bool sees = false;
      for (std::int64_t tap = 0; row >= cuts[1] && row < cuts[2] && tap < config.kernel; ++tap) {
        sees = sees || row - cuts[1] + tap * config.dilation - before == 9;
      }
      EXPECT_EQ(std::ranges::any_of(values(out.view().select(0, row)), [](double x) { return std::isnan(x); }), sees);
    }
  }
}

// As torch: uniform within 1 / sqrt(inputs of an output).
TEST(Convolution, InitialWeights) {
  Weights weights = initial_weights(1);
  const Conv1d conv({.in = 64, .out = 64, .kernel = 3}, weights);
  conv.visit([](const std::string& name, const Parameter& own) {
    const double bound = 1 / std::sqrt(64.0 * 3);
    EXPECT_LE(largest(own.value), bound) << name;
    EXPECT_GE(largest(own.value), 0.9 * bound) << name;
  });
}

TEST(Convolution, RefusesWhatDoesNotFit) {
  const auto refusal = [](const auto& call) { return test::message_of<std::invalid_argument>(call); };
  for (const auto& [config, message] : std::vector<std::pair<Conv1dConfig, std::string>>{
           {{.in = 0, .out = 2}, "in is 0; it must be 1 to 1048576"},
           {{.in = 2, .out = 2, .kernel = 0}, "kernel is 0; it must be 1 to 1048576"},
           {{.in = 2, .out = 2, .dilation = -1}, "dilation is -1; it must be 1 to 1048576"}}) {
    EXPECT_EQ(refusal([&] { conv1d(config)({}); }), "conv1d: " + message);
  }
  Weights weights({{"weight", Tensor::zeros({2, 3, 4})}, {"bias", Tensor::zeros({2})}}, "file");
  EXPECT_THROW(Conv1d({.in = 3, .out = 2, .kernel = 5}, weights), FormatError);

  PlainAsked<Conv1d> asked(Conv1dConfig{.in = 3, .out = 2, .kernel = 2}, Dims{3}, {.dtype = Dtype::f32});
  Conv1d& conv = asked.layer;
  const Tensor rows = Tensor::zeros({5, 3}), x = Tensor::zeros({2, 5, 3}), wide = Tensor::zeros({5, 3}, Dtype::f64);
  const Tensor more = Tensor::zeros({2, 5, 4}), floats = Tensor::zeros({2});
  const auto ends = [](const std::vector<std::int32_t>& of) { return Tensor::of({std::ssize(of)}, of); };
  const Tensor falling = ends({0, 3, 2}), late = ends({1, 5}), beyond = ends({0, 6});
  for (const auto& [given, message] : std::vector<std::pair<Sequences, std::string>>{
           {more, "the input is [2, 5, 4]; it must be [batch, length, 3], or rows [tokens, 3] with offsets"},
           {wide, "the input is f64, the weights are f32; they must agree"},
           {{rows, floats}, "offsets are f32 [2]; they must be i32 [batch + 1]"},
           {{rows, falling}, "offsets must begin with 0 and never fall; at 2 is 2"},
           {{rows, late}, "offsets must begin with 0 and never fall; at 0 is 1"},
           {{rows, beyond}, "offsets end with 6; the input has 5 rows"}}) {
    EXPECT_EQ(refusal([&] { conv.forward(given); }), "conv1d: " + message);
  }
  Tensor grad_out = Tensor::zeros({2, 4, 2}), wrong = Tensor::zeros({2, 4, 3}), doubles = convert(x, Dtype::f64);
  EXPECT_EQ(refusal([&] { conv.backward(x, Tensor::zeros({2, 5, 2})); }),
            "conv1d: the gradient is [2, 5, 2]; it must be [2, 4, 2]");
  EXPECT_EQ(refusal([&] { conv.backward(x, grad_out, wrong); }), "conv1d: grad_x is [2, 4, 3]; it must be [2, 5, 3]");
  EXPECT_EQ(refusal([&] { conv.backward(x, grad_out, doubles); }),
            "conv1d: grad_x is f64, the weights are f32; they must agree");
}

}  // namespace
}  // namespace qkv::testing
