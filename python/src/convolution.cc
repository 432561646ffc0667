// Conv1d.
#include "lab/layers/convolution.h"

#include "layer.h"
#include "layer_configs.h"

namespace qkv::python {
namespace {

Conv1dConfig read_convolution(Keywords& keywords) {
  Conv1dConfig config;
  keywords.read("in_channels", config.in);
  keywords.read("out_channels", config.out);
  keywords.read("kernel", config.kernel);
  keywords.read("stride", config.stride);
  keywords.read("padding", config.padding);
  keywords.read("dilation", config.dilation);
  keywords.read("groups", config.groups);
  keywords.read("bias", config.bias);
  keywords.read("causal", config.causal);
  return config;
}

struct ConvolutionCall : LayerCall {
  TensorView offsets{};  // of sequences, where they are ragged
  int threads = 0;

  Sequences x() const { return {input(0), offsets}; }
};

// Multiply-adds at a stride of 1.
double operations_of(const Conv1d& core, const TensorView& x) {
  const auto& config = core.config();
  return static_cast<double>(x.element_count()) * static_cast<double>(config.kernel) *
         static_cast<double>(config.out / config.groups);
}

nb::object forward_convolution(nb::handle self, nb::handle x, const nb::kwargs& given) {
  auto& core = core_of<Conv1d>(self);
  const auto call = std::make_shared<ConvolutionCall>();
  call->arrays.push_back(take_floats(x, "x"));
  Keywords keywords("Conv1d", given);
  bool save = false;
  keywords.read_offsets("offsets", call->offsets);
  keywords.read_threads(call->threads);
  keywords.read("save", save);
  keywords.finish();
  call->others = keywords.arrays();
  Tensor out;
  run_released(operations_of(core, call->input(0)), [&] { out = core.forward(call->x(), call->threads); });
  nb::object result = give_array(std::move(out), call->kind());
  if (call->offsets) result = nb::make_tuple(result, give_array(core.out_offsets(call->offsets), call->kind()));
  if (!save) return result;
  return give_saved(result, self, [call, &core](nb::handle grad_out) -> nb::object {
    const Array gradient = take_floats(grad_out, "grad_out");
    InputGradients to({call->input(0)});
    run_released(3 * operations_of(core, call->input(0)),
                 [&] { core.backward(call->x(), gradient.view, to[0], call->threads); });
    return to.give(call->kind());
  });
}

}  // namespace

void bind_convolution(nb::module_& module) {
  add_layer<Conv1d>(module, "Conv1d",
                    "def __init__(self, *, in_channels: int, out_channels: int, kernel: int = 1, stride: int = 1, "
                    "padding: int = 0, dilation: int = 1, groups: int = 1, bias: bool = True, causal: bool = "
                    "False, " QKV_LAYER_KEYWORDS ") -> None",
                    R"(``out[t, o] = bias[o] + sum over k, c of weight[o, c, k] x[t stride + k dilation - padding, c]``

Parameters and results of torch.nn.Conv1d, with channels last. causal: (kernel - 1) dilation zeros at the beginning alone.

>>> import numpy, qkv
>>> qkv.lab.Conv1d(in_channels=2, out_channels=3, kernel=2)(numpy.ones((1, 4, 2), "f")).shape
(1, 3, 3)
)",
                    read_convolution)
      .def(
          "__call__", &forward_convolution, "x"_a, "keywords"_a,
          nb::sig("def __call__(self, x: Array, *, offsets: Array | None = None, threads: int | None = None, save: "
                  "bool = False) -> typing.Any"),
          "x [batch, length, channels], or ragged: rows [tokens, channels] with offsets, int32 [batch + 1]; then (out, "
          "their offsets). save: gives (that, saved), for backward(), which gives (grad_x,).");
}

}  // namespace qkv::python
