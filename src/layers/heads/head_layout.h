// Where the projections of multi-head attention are among its parameters, in each scheme (multi_head_attention.h); from
// one scheme into another; and their gradients in each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "layers/basic/affine.h"
#include "qkv/layers/multi_head_attention.h"

namespace qkv {

inline constexpr const char* kRoles[] = {"query", "key", "value"};

// What one projection has of a parameter.
struct ParameterShare {
  std::size_t parameter = 0;
  std::int64_t begin = 0, end = 0;  // of its first dimension
  std::size_t first_part = 0;       // of its matrices
};

// Of the projection of queries, keys or values. Those that the scheme lacks are not there.
struct ProjectionLayout {
  std::optional<ParameterShare> weight, bias, shared_weight, shared_bias;
};

struct HeadLayout {
  struct Entry {
    std::string name;
    Dims shape;
    std::vector<std::int64_t> part_rows;  // as in packed_parameter.h
  };
  // All but those of the output projection, in their order.
  std::vector<Entry> entries;
  ProjectionLayout roles[3];
  std::optional<std::size_t> bias_k, bias_v;
};

// Every 0 replaced by its default. std::invalid_argument for what does not fit together.
MultiHeadAttentionConfig checked_config(MultiHeadAttentionConfig config);

// Of a checked config.
HeadLayout head_layout(const MultiHeadAttentionConfig& config);

// Of a role (0 to 2): its heads, whether its projection has a bias, and the size of its inputs.
std::int64_t heads_of(const MultiHeadAttentionConfig& config, int role);
bool has_bias(const MultiHeadAttentionConfig& config, int role);
std::int64_t input_dim(const MultiHeadAttentionConfig& config, int role);

// The weights of one projection.
struct HeadWeights {
  TensorView weight{};         // packed: [heads * head_dim, in]; else [heads, head_dim, in or shared_dim]
  TensorView bias{};           // [heads * head_dim] or [heads, head_dim]; may be absent
  TensorView shared_weight{};  // two_stage alone: [shared_dim, in]
  TensorView shared_bias{};    // two_stage alone: [shared_dim]; may be absent
};

// Under the names "weight", "bias", "shared_weight" and "shared_bias", as far as the scheme has them.
using OwnedHeadWeights = std::map<std::string, Tensor>;

// In the packed scheme. A shared stage is multiplied in, in f64, and rounded once:
//   (weight_h shared_weight) x + (weight_h shared_bias + bias_h)
OwnedHeadWeights fold_heads(const HeadWeights& weights);

// Packed weights in any scheme. two_stage: the shared stage is the whole projection, then each head picks its rows.
OwnedHeadWeights unfold_heads(const HeadWeights& packed, HeadScheme scheme, std::int64_t heads);

// Outputs in the shapes of HeadWeights, which are added to; one that is not given is not wanted.
struct HeadGradients {
  MutableTensorView weight{}, bias{}, shared_weight{}, shared_bias{};
};

// grad_out [n, heads * head_dim]; grad_rows [n, in] is added to, if it is given.
void heads_backward(PackedRows& rows, const HeadWeights& weights, const TensorView& grad_out,
                    const HeadGradients& gradients, const MutableTensorView& grad_rows, int threads);

}  // namespace qkv
