// Lists the parameters of multi-head attention and the shares that the projections have of them, converts weights from
// one layout to another, and computes their gradients in each.
#include "layers/heads/head_layout.h"

#include <algorithm>

namespace qkv {
namespace {

class Builder {
 public:
  // A share of `rows` in a parameter, below those that it has already; matrices of `part_rows` rows, 0: none.
  ParameterShare add(const std::string& name, const Dims& shape, std::int64_t part_rows = 0) {
    auto entry = std::ranges::find(layout.entries, name, &HeadLayout::Entry::name);
    if (entry == layout.entries.end()) {
      Dims empty = shape;
      empty[0] = 0;
      entry = layout.entries.insert(entry, {name, empty, {}});
    }
    const ParameterShare share{.parameter = static_cast<std::size_t>(entry - layout.entries.begin()),
                               .begin = entry->shape[0],
                               .end = entry->shape[0] + shape[0],
                               .first_part = entry->part_rows.size()};
    entry->shape[0] = share.end;
    if (part_rows > 0) {
      const std::int64_t rows = element_count(shape) / shape[shape.size() - 1];
      entry->part_rows.insert(entry->part_rows.end(), static_cast<std::size_t>(rows / part_rows), part_rows);
    }
    return share;
  }

  HeadLayout layout;
};

}  // namespace

std::int64_t input_dim(const MultiHeadAttentionConfig& config, int role) {
  return role == 0 ? config.model_dim : role == 1 ? config.key_input_dim : config.value_input_dim;
}

std::int64_t heads_of(const MultiHeadAttentionConfig& config, int role) {
  return role == 0 ? config.heads : config.kv_heads;
}

bool has_bias(const MultiHeadAttentionConfig& config, int role) {
  const ProjectionBias& own = config.projection_bias;
  return config.bias && (role == 0 ? own.query : role == 1 ? own.key : own.value);
}

HeadLayout head_layout(const MultiHeadAttentionConfig& config) {
  const bool joint = config.key_input_dim == config.model_dim && config.value_input_dim == config.model_dim;
  Builder builder;
  for (int role = 0; role < 3; ++role) {
    ProjectionLayout& own = builder.layout.roles[role];
    const std::string name = kRoles[role];
    const std::int64_t in = input_dim(config, role), heads = heads_of(config, role), inner = heads * config.head_dim;
    const bool bias = has_bias(config, role);
    if (config.scheme == HeadScheme::packed) {
      own.weight = builder.add(joint ? "in_proj_weight" : name.substr(0, 1) + "_proj_weight", {inner, in}, inner);
      if (bias) own.bias = builder.add("in_proj_bias", {inner});
      continue;
    }
    const bool shared = config.scheme == HeadScheme::two_stage;
    if (shared) own.shared_weight = builder.add(name + ".shared_weight", {inner, in}, inner);
    if (shared && bias) own.shared_bias = builder.add(name + ".shared_bias", {inner});
    own.weight = builder.add(name + ".weight", {heads, config.head_dim, shared ? inner : in}, config.head_dim);
    if (bias) own.bias = builder.add(name + ".bias", {heads, config.head_dim});
  }
  if (config.bias_kv) {
    const std::int64_t inner = config.kv_heads * config.head_dim;
    builder.layout.bias_k = builder.add("bias_k", {1, 1, inner}).parameter;
    builder.layout.bias_v = builder.add("bias_v", {1, 1, inner}).parameter;
  }
  return std::move(builder.layout);
}

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
  matmul(rows.view(), PackedMatrix(weights.shared_weight.transpose(0, 1), threads, rows.storage()), stage,
         {.bias = weights.shared_bias, .threads = threads});
  Tensor grad_stage = Tensor::zeros(stage.shape(), stage.dtype());
  PackedRows stage_rows(stage, rows.storage());
  stage_backward(stage_rows, weights, grad_out, gradients, grad_stage, threads);
  affine_backward(rows, weights.shared_weight, grad_stage,
                  {.weight = gradients.shared_weight, .bias = gradients.shared_bias, .x = grad_rows}, threads);
}

}  // namespace qkv
