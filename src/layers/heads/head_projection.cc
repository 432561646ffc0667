// HeadProjection: packs the weights of all heads and multiplies rows by them.
#include "qkv/layers/head_projection.h"

namespace qkv {

HeadProjection::Product::Product(const TensorView& weight, const TensorView& given_bias, WeightStorage storage)
    : matrix(weight.transpose(0, 1), 0, storage), has_bias(given_bias) {
  if (has_bias) bias = Tensor::copy(given_bias);
}

void HeadProjection::Product::run(const TensorView& rows, const MutableTensorView& out, int threads) const {
  matmul(rows, matrix, out, {.bias = has_bias ? bias.view() : TensorView(), .threads = threads});
}

HeadProjection::HeadProjection(const HeadWeights& weights, WeightStorage storage) {
  if (weights.shared_weight) shared_.emplace_back(weights.shared_weight, weights.shared_bias, storage);
  if (weights.weight.rank() == 2) {
    heads_.emplace_back(weights.weight, weights.bias, storage);
    return;
  }
  for (std::int64_t h = 0; h < weights.weight.size(0); ++h) {
    heads_.emplace_back(weights.weight.select(0, h), weights.bias ? weights.bias.select(0, h) : TensorView(), storage);
  }
}

Tensor HeadProjection::forward(const TensorView& rows, int threads) const {
  Tensor stage;
  TensorView input = rows;
  if (!shared_.empty()) {
    stage = Tensor::uninitialized({rows.size(0), shared_[0].matrix.columns()}, rows.dtype());
    shared_[0].run(rows, stage.view(), threads);
    input = stage.view();
  }
  std::int64_t columns = 0;
  for (const Product& head : heads_) columns += head.matrix.columns();
  Tensor out = Tensor::uninitialized({rows.size(0), columns}, rows.dtype());
  std::int64_t column = 0;
  for (const Product& head : heads_) {
    head.run(input, out.view().slice(1, column, column + head.matrix.columns()), threads);
    column += head.matrix.columns();
  }
  return out;
}

}  // namespace qkv
