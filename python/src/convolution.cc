// Conv1d, Conv2d, Pool1d and Pool2d.
#include "lab/layers/convolution.h"

#include "lab/layers/pooling.h"
#include "layer.h"
#include "layer_configs.h"

namespace qkv::python {
namespace {

template <class Config>
Config read_convolution(Keywords& keywords) {
  Config config;
  keywords.read("in_channels", config.in);
  keywords.read("out_channels", config.out);
  keywords.read("kernel", config.kernel);
  keywords.read("stride", config.stride);
  keywords.read("padding", config.padding);
  keywords.read("dilation", config.dilation);
  keywords.read("groups", config.groups);
  keywords.read("bias", config.bias);
  if constexpr (requires { config.causal; }) keywords.read("causal", config.causal);
  return config;
}

template <class Config>
Config read_pool(Keywords& keywords) {
  Config config;
  keywords.read("pooling", config.pooling, {{"max", PoolKind::max}, {"average", PoolKind::average}});
  keywords.read("kernel", config.kernel);
  keywords.read("stride", config.stride);
  keywords.read("padding", config.padding);
  return config;
}

// Pooling has no parameters; else it is a layer as others are.
template <class Pool, class Config>
struct Parameterless : Pool {
  Parameterless(const Config& config, Weights&) : Pool(config) {}
  void visit(const ParameterVisitor&) const {}
  void update(const ParameterUpdater&) {}
};
using MaxOrMean1d = Parameterless<Pool1d, Pool1dConfig>;
using MaxOrMean2d = Parameterless<Pool2d, Pool2dConfig>;

struct ConvolutionCall : LayerCall {
  TensorView offsets{};  // of sequences, where they are ragged
  int threads = 0;
};

template <class Core>
constexpr bool takes_sequences = requires(const Core& core, const TensorView& offsets) { core.out_offsets(offsets); };

// Sequences, or pictures.
template <class Core>
auto input_of(const ConvolutionCall& call) {
  if constexpr (takes_sequences<Core>) {
    return Sequences(call.input(0), call.offsets);
  } else {
    return call.input(0);
  }
}

std::int64_t taps_of(std::int64_t kernel) { return kernel; }
std::int64_t taps_of(const PictureSize& kernel) { return kernel.height * kernel.width; }

// Multiply-adds of forward() at a stride of 1.
template <class Core>
double operations_of(const Core& core, const TensorView& x) {
  const auto& config = core.config();
  const double of_element = static_cast<double>(taps_of(config.kernel)),
               elements = static_cast<double>(x.element_count());
  if constexpr (requires { config.groups; }) {
    return elements * of_element * static_cast<double>(config.out / config.groups);
  } else {
    return elements * of_element;
  }
}

template <class Core>
nb::object forward_convolution(nb::handle self, nb::handle x, const nb::kwargs& given) {
  auto& core = core_of<Core>(self);
  const auto call = std::make_shared<ConvolutionCall>();
  call->arrays.push_back(take_floats(x, "x"));
  Keywords keywords(name_of_type(self), given);
  bool save = false;
  if constexpr (takes_sequences<Core>) keywords.read_offsets("offsets", call->offsets);
  keywords.read_threads(call->threads);
  keywords.read("save", save);
  keywords.finish();
  call->others = keywords.arrays();
  Tensor out;
  run_released(operations_of(core, call->input(0)), [&] { out = core.forward(input_of<Core>(*call), call->threads); });
  nb::object result = give_array(std::move(out), call->kind());
  if constexpr (takes_sequences<Core>) {
    if (call->offsets) result = nb::make_tuple(result, give_array(core.out_offsets(call->offsets), call->kind()));
  }
  if (!save) return result;
  return give_saved(result, self, [call, &core](nb::handle grad_out) -> nb::object {
    const Array gradient = take_floats(grad_out, "grad_out");
    InputGradients to({call->input(0)});
    run_released(3 * operations_of(core, call->input(0)),
                 [&] { core.backward(input_of<Core>(*call), gradient.view, to[0], call->threads); });
    return to.give(call->kind());
  });
}

constexpr const char* kForward1d =
    "def __call__(self, x: Array, *, offsets: Array | None = None, threads: int | None = None, save: bool = False) -> "
    "typing.Any";
constexpr const char* kForward2d =
    "def __call__(self, x: Array, *, threads: int | None = None, save: bool = False) -> typing.Any";
constexpr const char* kOf1d =
    "x [batch, length, channels], or ragged: rows [tokens, channels] with offsets, int32 [batch + 1]; then (out, their "
    "offsets). save: gives (that, saved), for backward(), which gives (grad_x,).";
constexpr const char* kOf2d =
    "x [batch, height, width, channels]. save: gives (out, saved), for backward(), which gives (grad_x,).";

#define QKV_CONVOLUTION_KEYWORDS(size)                                                             \
  "def __init__(self, *, in_channels: int, out_channels: int, kernel: " size " = 1, stride: " size \
  " = 1, padding: " size " = 0, dilation: " size " = 1, groups: int = 1, bias: bool = True, "
#define QKV_POOL_KEYWORDS(size)                                                                              \
  "def __init__(self, *, kernel: " size ", pooling: typing.Literal['max', 'average'] = 'max', stride: " size \
  " | None = None, padding: " size " = 0) -> None"
#define QKV_SIZE "int | tuple[int, int]"

}  // namespace

void bind_convolution(nb::module_& module) {
  add_layer<Conv1d>(module, "Conv1d",
                    QKV_CONVOLUTION_KEYWORDS("int") "causal: bool = False, " QKV_LAYER_KEYWORDS ") -> None",
                    R"(``out[t, o] = bias[o] + sum over k, c of weight[o, c, k] x[t stride + k dilation - padding, c]``

Parameters and results of torch.nn.Conv1d, with channels last. causal: (kernel - 1) dilation zeros at the beginning alone.

>>> import numpy, qkv
>>> qkv.lab.Conv1d(in_channels=2, out_channels=3, kernel=2)(numpy.ones((1, 4, 2), "f")).shape
(1, 3, 3)
)",
                    read_convolution<Conv1dConfig>)
      .def("__call__", &forward_convolution<Conv1d>, "x"_a, "keywords"_a, nb::sig(kForward1d), kOf1d);
  add_layer<Conv2d>(module, "Conv2d", QKV_CONVOLUTION_KEYWORDS(QKV_SIZE) QKV_LAYER_KEYWORDS ") -> None",
                    R"(As Conv1d over rows and columns of pictures: torch.nn.Conv2d, with channels last.

>>> import numpy, qkv
>>> qkv.lab.Conv2d(in_channels=1, out_channels=2, kernel=3, padding=1)(numpy.ones((1, 4, 5, 1), "f")).shape
(1, 4, 5, 2)
)",
                    read_convolution<Conv2dConfig>)
      .def("__call__", &forward_convolution<Conv2d>, "x"_a, "keywords"_a, nb::sig(kForward2d), kOf2d);
  add_layer<MaxOrMean1d>(
      module, "Pool1d", QKV_POOL_KEYWORDS("int"),
      "The largest or the mean element of every window: torch.nn.MaxPool1d and AvgPool1d, with channels "
      "last. stride: kernel unless given.",
      read_pool<Pool1dConfig>)
      .def("__call__", &forward_convolution<MaxOrMean1d>, "x"_a, "keywords"_a, nb::sig(kForward1d), kOf1d);
  add_layer<MaxOrMean2d>(
      module, "Pool2d", QKV_POOL_KEYWORDS(QKV_SIZE),
      "The largest or the mean element of every window: torch.nn.MaxPool2d and AvgPool2d, with channels "
      "last. stride: kernel unless given.",
      read_pool<Pool2dConfig>)
      .def("__call__", &forward_convolution<MaxOrMean2d>, "x"_a, "keywords"_a, nb::sig(kForward2d), kOf2d);
}

}  // namespace qkv::python
