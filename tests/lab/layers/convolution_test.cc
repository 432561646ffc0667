// Conv1d and Conv2d against plain loops in double, every option crossed with every other; more rows and channels than a
// block has; what windows see; first weights; refusals.
#include "lab/layers/convolution.h"

#include "io/files_for_test.h"
#include "lab/layers/plain_convolution.h"
#include "layers/asked_layer.h"
#include "qkv/layers/initial_weights.h"

namespace qkv::testing {
namespace {

// Forward and backward, with the bounds. `sizes` are those of the pictures of the input.
void expect_plain(AskedLayer& layer, const PlainConvolution& plain, const std::vector<PictureSize>& sizes) {
  const Training done(layer, 0);
  const Tensors& own = layer.drawn.tensors;
  const PlainPictures wanted =
      convolve_plainly(plain, sizes, values(layer.inputs[0]), values(own.at("weight")),
                       own.contains("bias") ? values(own.at("bias")) : std::vector<double>{}, values(done.grad_out[0]));
  expect_near(done.out[0], wanted.out, "out");
  expect_near(done.grad_in[0], wanted.grad_x, "grad_x");
  layer.visit([&](const std::string& name, const Parameter& parameter) {
    expect_near(parameter.gradient, name == "bias" ? wanted.grad_bias : wanted.grad_weight, name);
  });
}

void expect_plain_sequences(const Conv1dConfig& config, const Request& request) {
  const std::int64_t reach = (config.kernel - 1) * config.dilation;
  const PlainConvolution plain{.in = config.in,
                               .out = config.out,
                               .groups = config.groups,
                               .kernel = {1, config.kernel},
                               .stride = {1, config.stride},
                               .dilation = {1, config.dilation},
                               .before = {0, config.causal ? reach : config.padding},
                               .after = {0, config.padding}};
  PlainAsked<Conv1d> layer(config, Dims{config.in}, request);
  std::vector<PictureSize> sizes;
  const Tensor ends = layer.layer.out_offsets(layer.offsets);
  std::int64_t end = 0;
  for (const std::int64_t length : request.lengths) {
    sizes.push_back({1, length});
    end += plain.out_size(sizes.back()).width;
    EXPECT_EQ(ends.data<std::int32_t>()[sizes.size()], end);
  }
  expect_plain(layer, plain, sizes);
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
  const auto expect = [&](std::int64_t kernel, std::int64_t stride, std::int64_t dilation, std::int64_t padding,
                          std::int64_t groups) {
    SCOPED_TRACE(::testing::Message() << "kernel " << kernel << " stride " << stride << " dilation " << dilation
                                      << " padding " << padding << " groups " << groups);
    const Conv1dConfig config{.in = groups * choose.of({1, 2, 5}),
                              .out = groups * choose.of({1, 3, 17}),
                              .kernel = kernel,
                              .stride = stride,
                              .padding = std::max<std::int64_t>(padding, 0),
                              .dilation = dilation,
                              .groups = groups,
                              .bias = choose.coin(),
                              .causal = padding < 0};
    const std::int64_t length = choose.of(lengths);
    expect_plain_sequences(config, {.dtype = choose.dtype(), .lengths = {length, length}, .ragged = false});
    expect_plain_sequences(config,
                           {.dtype = choose.dtype(), .lengths = {choose.of(lengths), 1, choose.of(lengths), 0, 4}});
  };
  for_all(expect, List{1, 2, 3, 6}, List{1, 2, 5}, List{1, 2, 16}, List{-1, 0, 1, 4}, List{1, 2, 3});
}

TEST_P(ConvolutionTargets, PicturesWithEveryOption) {
  Choices choose{Random(2)};
  const auto expect = [&](std::int64_t height, std::int64_t width, std::int64_t stride, std::int64_t dilation,
                          std::int64_t padding) {
    SCOPED_TRACE(::testing::Message() << "kernel " << height << " x " << width << " stride " << stride << " dilation "
                                      << dilation << " padding " << padding);
    const std::int64_t groups = choose.of({1, 1, 2, 3}), batch = choose.of({0, 1, 3});
    const Conv2dConfig config{.in = groups * choose.of({1, 2}),
                              .out = groups * choose.of({1, 4}),
                              .kernel = {height, width},
                              .stride = {stride, choose.of({1, 2, 4})},
                              .padding = {padding, choose.of({0, 1, 3})},
                              .dilation = {dilation, choose.of({1, 3})},
                              .groups = groups,
                              .bias = choose.coin()};
    const PlainConvolution plain{.in = config.in,
                                 .out = config.out,
                                 .groups = groups,
                                 .kernel = config.kernel,
                                 .stride = config.stride,
                                 .dilation = config.dilation,
                                 .before = config.padding,
                                 .after = config.padding};
    const PictureSize size{choose.of({0, 1, 2, 4, 7}), choose.of({0, 1, 2, 4, 7})};
    PlainAsked<Conv2d> layer(config, Dims{size.height, size.width, config.in},
                             {.dtype = choose.dtype(), .lengths = {batch}});
    expect_plain(layer, plain, std::vector<PictureSize>(static_cast<std::size_t>(batch), size));
    EXPECT_EQ(layer.layer.out_size(size), plain.out_size(size));
  };
  for_all(expect, List{1, 2, 3}, List{1, 2, 3}, List{1, 2, 4}, List{1, 3}, List{0, 1, 3});
}

// More than a block of rows, of a sum and of channels; depthwise.
TEST_P(ConvolutionTargets, ManyRowsAndChannels) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    expect_plain_sequences({.in = 70, .out = 50, .kernel = 3, .padding = 1},
                           {.dtype = dtype, .lengths = {300, 1, 0, 129, 250}});
    expect_plain_sequences({.in = 30, .out = 30, .kernel = 5, .groups = 30, .causal = true},
                           {.dtype = dtype, .lengths = {600}});
    expect_plain_sequences({.in = 130, .out = 2, .kernel = 2, .stride = 2, .dilation = 3},
                           {.dtype = dtype, .lengths = {1200}});
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
  for (const Conv1dConfig& config :
       {Conv1dConfig{.in = 12, .out = 9, .kernel = 3, .padding = 1},
        Conv1dConfig{.in = 12, .out = 9, .kernel = 3, .dilation = 4, .groups = 3, .causal = true},
        Conv1dConfig{.in = 12, .out = 9, .kernel = 4, .stride = 3, .padding = 2, .dilation = 2}}) {
    PlainAsked<Conv1d> layer(config, Dims{12}, {.dtype = Dtype::f32, .lengths = {6, 20, 7}});
    put(layer.inputs[0], {6 + 9, 0}, kNan);
    const Tensor out = layer.run(Pass::use, 0)[0], ends = layer.layer.out_offsets(layer.offsets);
    const std::int32_t* cuts = ends.data<std::int32_t>();
    const std::int64_t before = config.causal ? (config.kernel - 1) * config.dilation : config.padding;
    for (std::int64_t row = 0; row < out.size(0); ++row) {
      bool sees = false;
      for (std::int64_t tap = 0; row >= cuts[1] && row < cuts[2] && tap < config.kernel; ++tap) {
        sees = sees || (row - cuts[1]) * config.stride + tap * config.dilation - before == 9;
      }
      EXPECT_EQ(std::ranges::any_of(values(out.view().select(0, row)), [](double x) { return std::isnan(x); }), sees);
    }
  }
}

// As torch: uniform within 1 / sqrt(inputs of an output).
TEST(Convolution, InitialWeights) {
  Weights weights = initial_weights(1);
  const Conv1d conv({.in = 64, .out = 64, .kernel = 3, .groups = 2}, weights);
  conv.visit([](const std::string& name, const Parameter& own) {
    const double bound = 1 / std::sqrt(32.0 * 3);
    EXPECT_LE(largest(own.value), bound) << name;
    EXPECT_GE(largest(own.value), 0.9 * bound) << name;
  });
}

TEST(Convolution, RefusesWhatDoesNotFit) {
  const auto refusal = [](const auto& call) { return test::message_of<std::invalid_argument>(call); };
  for (const auto& [config, message] : std::vector<std::pair<Conv1dConfig, std::string>>{
           {{.in = 0, .out = 2}, "in is 0; it must be 1 to 1048576"},
           {{.in = 2, .out = 2, .kernel = 0}, "kernel is 0; it must be 1 to 1048576"},
           {{.in = 2, .out = 2, .stride = 0}, "stride is 0; it must be 1 to 1048576"},
           {{.in = 2, .out = 2, .dilation = -1}, "dilation is -1; it must be 1 to 1048576"},
           {{.in = 2, .out = 2, .padding = -1}, "padding is -1; it must be 0 to 1048576"},
           {{.in = 4, .out = 6, .groups = 4}, "4 groups must divide in, 4, and out, 6"},
           {{.in = 2, .out = 2, .padding = 1, .causal = true}, "causal with a padding of 1; it must be 0"}}) {
    EXPECT_EQ(refusal([&] { conv1d(config)({}); }), "conv1d: " + message);
  }
  Weights weights({{"weight", Tensor::zeros({2, 3, 4})}, {"bias", Tensor::zeros({2})}}, "file");
  EXPECT_THROW(Conv1d({.in = 3, .out = 2, .kernel = 5}, weights), FormatError);
  EXPECT_THROW(Conv2d({.in = 3, .out = 2, .kernel = {2, 2}}, weights), FormatError);

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
  const PlainAsked<Conv2d> picture(Conv2dConfig{.in = 3, .out = 2}, Dims{2, 2, 3}, {.dtype = Dtype::f32});
  EXPECT_EQ(refusal([&] { picture.layer.forward(x); }),
            "conv2d: the input is [2, 5, 3]; it must be [batch, height, width, 3]");
}

}  // namespace
}  // namespace qkv::testing
