// The projection of rows [n, in] to all heads at once, [n, heads * head_dim]: head h owns columns h * head_dim and
// following. Its weights have one of three layouts that can express the same:
//   packed     one matrix [heads * head_dim, in], split among the heads logically
//   per_head   a matrix for each head: [heads, head_dim, in]
//   two_stage  a shared matrix [shared_dim, in], then one for each head: [heads, head_dim, shared_dim]
#pragma once

#include <vector>

#include "qkv/matmul.h"

namespace qkv {

enum class HeadScheme { packed, per_head, two_stage };

struct HeadWeights {
  TensorView weight{};         // packed: [heads * head_dim, in]; else [heads, head_dim, in or shared_dim]
  TensorView bias{};           // [heads * head_dim] or [heads, head_dim]; may be absent
  TensorView shared_weight{};  // two_stage alone: [shared_dim, in]
  TensorView shared_bias{};    // two_stage alone: [shared_dim]; may be absent
};

// Weights laid out for the product. Immutable: any number of threads may call forward.
class HeadProjection {
 public:
  explicit HeadProjection(const HeadWeights& weights, WeightStorage storage = WeightStorage::full);

  Tensor forward(const TensorView& rows, int threads = 0) const;

 private:
  struct Product {
    Product(const TensorView& weight, const TensorView& given_bias, WeightStorage storage);
    void run(const TensorView& rows, const MutableTensorView& out, int threads) const;

    PackedMatrix matrix;
    Tensor bias;
    bool has_bias;
  };
  std::vector<Product> shared_;  // none or one
  std::vector<Product> heads_;   // packed: one for all
};

}  // namespace qkv
