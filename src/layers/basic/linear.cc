// Linear: packs its weight, and multiplies rows by it, forward and backward.
#include "qkv/layers/linear.h"

#include <algorithm>

#include "core/mathematics.h"
#include "layers/basic/affine.h"
#include "layers/basic/layer_checks.h"
#include "layers/basic/rows.h"
#include "ops/matmul/matmul_columns.h"

namespace qkv {

Linear::Linear(const LinearConfig& config, Weights& weights, const std::string& scope) : config_(config) {
  check_size("linear", "in", config.in);
  check_size("linear", "out", config.out);
  weight_ = PackedParameter(weights, scope + "weight", {config.out, config.in}, {config.out}, weights.storage());
  if (config.bias) bias_.value = weights.take(scope + "bias", {config.out});
}

Tensor Linear::forward(const TensorView& x, int threads) const {
  const LayerRows rows("linear", x, config_.in);
  Tensor out = Tensor::uninitialized(with_last(x.shape(), config_.out), weight_.part().dtype());
  forward(rows.view(), out.view().reshape({rows.count(), config_.out}), threads);
  return out;
}

void Linear::forward(const TensorView& x, const MutableTensorView& out, int threads) const {
  matmul(x, packed(), out, {.bias = bias(), .threads = threads});
}

void Linear::forward_columns(const TensorView& x, std::int64_t first, const MutableTensorView& out, int threads) const {
  const TensorView part = config_.bias ? bias().slice(0, first, first + out.size(1)) : TensorView();
  matmul_columns(x, packed(), first, out, {.bias = part, .threads = threads});
}

std::int64_t Linear::columns_at_once(std::int64_t wanted) const {
  const PackedMatrix& weight = weight_.part();
  if (column_step(weight) == weight.columns()) return config_.out;
  const std::int64_t panel = weight.panel_columns();
  return std::clamp(wanted / panel * panel, panel, divide_up(config_.out, panel) * panel);
}

ClassWeights Linear::classes(Tensor& storage) const { return {.weight = weight_.value(storage), .bias = bias()}; }

CrossEntropyGradients Linear::class_gradients() {
  return {.weight = weight_.gradient(), .bias = config_.bias ? gradient_view(bias_) : MutableTensorView()};
}

PackedMatrix Linear::pack_for_backward(int threads) const {
  Tensor unpacked;
  return PackedMatrix(weight_.value(unpacked), threads, for_gradients(weight_.part().storage()));
}

void Linear::backward(const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x, int threads) {
  const LayerRows rows("linear", x, config_.in), grad_rows("linear: gradient", grad_out, config_.out);
  PackedRows inputs(rows.view(), weight_.part().storage());
  Tensor unpacked;
  affine_backward(inputs, grad_x ? weight_.value(unpacked) : TensorView(), grad_rows.view(),
                  {.weight = weight_.gradient(),
                   .bias = config_.bias ? gradient_view(bias_) : MutableTensorView(),
                   .x = grad_x ? output_rows("linear", "grad_x", grad_x, x.shape()) : grad_x},
                  threads);
}

void Linear::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(weight_, scope + "weight");
  if (config_.bias) walk(bias_, scope + "bias");
}

}  // namespace qkv
