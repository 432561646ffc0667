// Converts the weights of a head projection from one layout to another.
#include "layers/heads/head_schemes.h"

namespace qkv {
namespace {

// first [m, k] second [k, n] in f64, plus `added` [m, n] if given; rounded to the type of `first`.
Tensor multiply(const TensorView& first, const TensorView& second, const TensorView& added) {
  Tensor product = added ? convert(added, Dtype::f64) : Tensor::zeros({first.size(0), second.size(1)}, Dtype::f64);
  matmul(convert(first, Dtype::f64), convert(second, Dtype::f64), product, {.accumulate = true});
  return convert(product, first.dtype());
}

// Head h has ones where its rows of the packed projection are: [heads, head_dim, heads * head_dim].
Tensor selectors(std::int64_t heads, std::int64_t columns, Dtype dtype) {
  Tensor ones = Tensor::zeros({columns, columns});
  for (std::int64_t i = 0; i < columns; ++i) ones.data<float>()[i * columns + i] = 1;
  return convert(ones.view().reshape({heads, columns / heads, columns}), dtype);
}

}  // namespace

OwnedHeadWeights fold_heads(const HeadWeights& weights) {
  // All heads' rows one below the other; a bias is a column beside them.
  const std::int64_t in = weights.weight.size(-1), columns = weights.weight.element_count() / in;
  const TensorView stacked = weights.weight.reshape({columns, in});
  OwnedHeadWeights packed;
  if (weights.shared_weight) {
    packed["weight"] = multiply(stacked, weights.shared_weight, {});
  } else {
    packed["weight"] = Tensor::copy(stacked);
  }
  if (weights.bias && weights.shared_bias) {
    const Tensor bias = multiply(stacked, weights.shared_bias.reshape({in, 1}), weights.bias.reshape({columns, 1}));
    packed["bias"] = Tensor::copy(bias.view().reshape({columns}));
  } else if (weights.bias) {
    packed["bias"] = Tensor::copy(weights.bias.reshape({columns}));
  }
  return packed;
}

OwnedHeadWeights unfold_heads(const HeadWeights& packed, HeadScheme scheme, std::int64_t heads) {
  const std::int64_t columns = packed.weight.size(0), in = packed.weight.size(1), head_dim = columns / heads;
  OwnedHeadWeights result;
  if (scheme == HeadScheme::two_stage) {
    result["shared_weight"] = Tensor::copy(packed.weight);
    result["weight"] = selectors(heads, columns, packed.weight.dtype());
    if (packed.bias) {
      result["shared_bias"] = Tensor::copy(packed.bias);
      result["bias"] = Tensor::zeros({heads, head_dim}, packed.bias.dtype());
    }
    return result;
  }
  const bool split = scheme == HeadScheme::per_head;
  result["weight"] = Tensor::copy(split ? packed.weight.reshape({heads, head_dim, in}) : packed.weight);
  if (packed.bias) result["bias"] = Tensor::copy(split ? packed.bias.reshape({heads, head_dim}) : packed.bias);
  return result;
}

}  // namespace qkv
