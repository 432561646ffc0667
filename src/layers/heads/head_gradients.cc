// Computes the gradients of the weights of a head projection, in each layout.
#include "layers/heads/head_gradients.h"

namespace qkv {
namespace {

// Head by head, or all at once in the packed scheme.
void stage_backward(PackedRows& rows, const HeadWeights& weights, const TensorView& grad_out,
                    const HeadGradients& gradients, const MutableTensorView& grad_rows, int threads) {
  if (weights.weight.rank() == 2) {
    affine_backward(rows, weights.weight, grad_out,
                    {.weight = gradients.weight, .bias = gradients.bias, .x = grad_rows}, threads);
    return;
  }
  const std::int64_t head_dim = weights.weight.size(1);
  const auto of_head = [](const MutableTensorView& output, std::int64_t h) {
    return output ? output.select(0, h) : output;
  };
  for (std::int64_t h = 0; h < weights.weight.size(0); ++h) {
    affine_backward(rows, weights.weight.select(0, h), grad_out.slice(1, h * head_dim, (h + 1) * head_dim),
                    {.weight = of_head(gradients.weight, h), .bias = of_head(gradients.bias, h), .x = grad_rows},
                    threads);
  }
}

}  // namespace

void heads_backward(PackedRows& rows, const HeadWeights& weights, const TensorView& grad_out,
                    const HeadGradients& gradients, const MutableTensorView& grad_rows, int threads) {
  if (!weights.shared_weight) return stage_backward(rows, weights, grad_out, gradients, grad_rows, threads);
  Tensor stage = Tensor::uninitialized({rows.view().size(0), weights.shared_weight.size(0)}, grad_out.dtype());
  matmul(rows.view(), weights.shared_weight.transpose(0, 1), stage, {.bias = weights.shared_bias, .threads = threads});
  Tensor grad_stage = Tensor::zeros(stage.shape(), stage.dtype());
  PackedRows stage_rows(stage);
  stage_backward(stage_rows, weights, grad_out, gradients, grad_stage, threads);
  affine_backward(rows, weights.shared_weight, grad_stage,
                  {.weight = gradients.shared_weight, .bias = gradients.shared_bias, .x = grad_rows}, threads);
}

}  // namespace qkv
