// Tensors under our names and under those of a model's folder: one table per kind of model, read in both directions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/layers/layer_norm.h"
#include "qkv/tensor.h"

namespace qkv::inline models {

// One of our tensors is those of the folder one below the other, each of shape `part`.
struct TensorName {
  std::string ours;
  Dims shape;
  std::vector<std::string> theirs;
  Dims part;
};

class TensorNames {
 public:
  // Names of the folder begin with `prefix`.
  explicit TensorNames(std::string prefix, Normalization normalization = Normalization::layer)
      : prefix_(std::move(prefix)), has_norm_bias_(normalization == Normalization::layer) {}

  // Stacked, if there are several.
  void add(const std::string& ours, const Dims& shape, const std::vector<std::string>& theirs);
  // A vector here, a row there, whose name has no prefix.
  void add_row(const std::string& name, std::int64_t size);
  void add_norm(const std::string& ours, const std::string& theirs, std::int64_t dim);
  void add_linear(const std::string& ours, const std::string& theirs, std::int64_t out, std::int64_t in);
  // `roles`: the projections of queries, keys and values.
  void add_attention(const std::string& ours, const std::vector<std::string>& roles, const std::string& out,
                     std::int64_t dim);

  const std::vector<TensorName>& all() const { return all_; }

 private:
  std::string prefix_;
  bool has_norm_bias_;
  std::vector<TensorName> all_;
};

// One of our tensors, in f32, from those of the folder in the order of their names, and back, as `dtype`.
Tensor to_ours(const TensorName& named, std::vector<Tensor> theirs);
std::vector<Tensor> to_theirs(const TensorName& named, const TensorView& ours, Dtype dtype);

}  // namespace qkv::inline models
