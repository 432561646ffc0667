#include "qkv/linear.h"

#include "layers/check_size.h"
#include "layers/rows.h"

namespace qkv {

Linear::Linear(const LinearConfig& config, Weights& weights, const std::string& scope) : config_(config) {
  check_size("linear", "in", config.in);
  check_size("linear", "out", config.out);
  weight_ = weights.take(scope + "weight", {config.out, config.in});
  if (config.bias) bias_ = weights.take(scope + "bias", {config.out});
  packed_ = PackedMatrix(weight_.view().transpose(0, 1));
}

Tensor Linear::forward(const TensorView& x, int threads) const {
  const Rows rows("linear", x, config_.in);
  Tensor out = Tensor::uninitialized(with_last(x.shape(), config_.out), packed_.dtype());
  forward(rows.view(), out.view().reshape({rows.count(), config_.out}), threads);
  return out;
}

void Linear::forward(const TensorView& x, const MutableTensorView& out, int threads) const {
  matmul(x, packed_, out, {.bias = config_.bias ? bias_.view() : TensorView(), .threads = threads});
}

void Linear::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  visitor(scope + "weight", weight_);
  if (config_.bias) visitor(scope + "bias", bias_);
}

}  // namespace qkv
