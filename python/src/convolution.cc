// Conv1d.
#include "lab/layers/convolution.h"

#include "layer.h"
#include "layer_configs.h"

namespace qkv::python {
namespace {

Conv1dConfig read_convolution(Keywords& keywords) {
  Conv1dConfig config;
  keywords.read("in_channels", config.in, "out_channels", config.out, "kernel", config.kernel, "dilation",
                config.dilation, "bias", config.bias, "causal", config.causal);
  return config;
}

// Multiply-adds.
double operations_of(const Conv1d& core, const TensorView& x) {
  return static_cast<double>(x.element_count() * core.config().kernel) * static_cast<double>(core.config().out);
}

nb::object forward_convolution(nb::handle self, nb::handle x, const nb::kwargs& given) {
  auto& core = core_of<Conv1d>(self);
  const auto call = call_of<LayerCall>({{x, "x"}});
  Keywords keywords("Conv1d", given);
  keywords.read_offsets("offsets", call->offsets[0]);
  call->finish(keywords);
  return run_layer(
      self, call, operations_of(core, call->input(0)),
      [&](LayerCall& c) {
        Tensor out = core.forward(c.sequences(0), c.threads);
        return c.offsets[0] ? list_of(std::move(out), core.out_offsets(c.offsets[0])) : list_of(std::move(out));
      },
      [&core](LayerCall& c, const std::vector<TensorView>& grad_out) {
        Tensor grad_x = Tensor::zeros(c.input(0).shape(), c.input(0).dtype());
        core.backward(c.sequences(0), grad_out[0], grad_x, c.threads);
        return list_of(std::move(grad_x));
      });
}

}  // namespace

void bind_convolution(nb::module_& module) {
  add_layer<Conv1d>(module, "Conv1d", read_convolution).def("__call__", &forward_convolution, "x"_a, "keywords"_a);
}

}  // namespace qkv::python
