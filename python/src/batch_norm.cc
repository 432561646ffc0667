// BatchNorm.
#include "lab/layers/batch_norm.h"

#include "layer.h"
#include "layer_configs.h"

namespace qkv::python {
namespace {

struct BatchNormCall : LayerCall {
  bool training = false;
  int threads = 0;
  BatchNormSaved statistics{};  // of the rows, in training
};

nb::object forward_batch_norm(nb::handle self, nb::handle x, const nb::kwargs& given) {
  auto& core = core_of<BatchNorm>(self);
  const auto call = std::make_shared<BatchNormCall>();
  call->arrays.push_back(take_floats(x, "x"));
  Keywords keywords(name_of_type(self), given);
  bool save = false;
  keywords.read("training", call->training);
  keywords.read_threads(call->threads);
  keywords.read("save", save);
  keywords.finish();
  Tensor out;
  run_released(10 * static_cast<double>(call->input(0).element_count()), [&] {
    out = call->training ? core.forward(call->input(0), call->statistics, call->threads)
                         : core.forward(call->input(0), call->threads);
  });
  nb::object result = give_array(std::move(out), call->kind());
  if (!save) return result;
  return give_saved(result, self, [call, &core](nb::handle grad_out) -> nb::object {
    const Array gradient = take_floats(grad_out, "grad_out");
    InputGradients to({call->input(0)});
    run_released(10 * static_cast<double>(call->input(0).element_count()), [&] {
      if (call->training) {
        core.backward(call->input(0), call->statistics, gradient.view, to[0], call->threads);
      } else {
        core.backward(call->input(0), gradient.view, to[0], call->threads);
      }
    });
    return to.give(call->kind());
  });
}

}  // namespace

void bind_batch_norm(nb::module_& module) {
  add_layer<BatchNorm>(
      module, "BatchNorm",
      "def __init__(self, *, dim: int, epsilon: float = 1e-05, momentum: float = 0.1, " QKV_LAYER_KEYWORDS ") -> None",
      R"(``y = (x - mean) / sqrt(variance + epsilon) * weight + bias`` of each channel, over all rows.

Parameters and results of torch.nn.BatchNorm1d and BatchNorm2d, with channels last; num_batches_tracked of their state is
not read. momentum: what the newest batch weighs in running_mean and running_var.

>>> import numpy, qkv
>>> norm = qkv.lab.BatchNorm(dim=2)
>>> norm(numpy.array([[1, 2], [3, 6]], "f"), training=True).round(3).tolist()
[[-1.0, -1.0], [1.0, 1.0]]
)",
      [](Keywords& keywords) {
        BatchNormConfig config;
        keywords.read("dim", config.dim);
        keywords.read("epsilon", config.epsilon);
        keywords.read("momentum", config.momentum);
        return config;
      })
      .def(
          "__call__", &forward_batch_norm, "x"_a, "keywords"_a,
          nb::sig("def __call__(self, x: Array, *, training: bool = False, threads: int | None = None, save: bool = "
                  "False) -> "
                  "typing.Any"),
          "x [..., dim]. training: by mean and variance of these rows, two at least, which move the running ones; else "
          "by the running ones. save: gives (out, saved), for backward(), which gives (grad_x,).");
}

}  // namespace qkv::python
