// Tensors under our names and under those of a model's folder: one table per kind of model, read in both directions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/layers/layer_norm.h"
#include "qkv/tensor.h"

namespace qkv::inline models {

// One of our tensors is those of the folder one below the other.
struct TensorName {
  std::string ours;
  Dims shape;
  std::vector<std::string> theirs;
  std::vector<Dims> parts;                         // their shapes
  std::function<Tensor(const Tensor&)> form = {};  // what else becomes of them; such names are only read
  std::optional<std::int64_t> first_row = {};      // ours are the rows from there
};

class TensorNames {
 public:
  // Names of the folder begin with `prefix`.
  explicit TensorNames(std::string prefix, Normalization normalization = Normalization::layer)
      : prefix_(std::move(prefix)), has_norm_bias_(normalization == Normalization::layer) {}

  // Stacked, if there are several.
  void add(const std::string& ours, const Dims& shape, const std::vector<std::string>& theirs);
  // Stacked, with so many rows each.
  void add_rows(const std::string& ours, const Dims& shape,
                const std::vector<std::pair<std::string, std::int64_t>>& theirs);
  // With another shape there, converted by `form`.
  void add_formed(const std::string& ours, const Dims& shape, const std::string& theirs, const Dims& part,
                  const std::function<Tensor(const Tensor&)>& form);
  // The rows from `first` of a matrix there, all of whose rows are listed.
  void add_part(const std::string& ours, const Dims& shape, const std::string& theirs, const Dims& part,
                std::int64_t first);
  // With another shape there, and as many elements in the same order.
  void add_reshaped(const std::string& ours, const Dims& shape, const std::string& theirs, const Dims& part);
  // Without prefix: a head's, by default with the same name on both sides, and another shape there if `part` says so.
  void add_head(const std::string& name, const Dims& shape, const Dims& part = {}, const std::string& theirs = {});
  void add_norm(const std::string& ours, const std::string& theirs, std::int64_t dim);
  void add_linear(const std::string& ours, const std::string& theirs, std::int64_t out, std::int64_t in);
  // `roles`: the projections of queries, keys and values.
  void add_attention(const std::string& ours, const std::vector<std::string>& roles, const std::string& out,
                     std::int64_t dim);

  const std::vector<TensorName>& all() const { return all_; }
  // One of our tensors, which is listed, as those of the folder, as `dtype`.
  void add_theirs(const std::string& ours, const TensorView& value, Dtype dtype,
                  std::map<std::string, Tensor>& theirs) const;

 private:
  std::string prefix_;
  bool has_norm_bias_;
  std::vector<TensorName> all_;
};

// One of our tensors, in f32, from those of the folder in the order of their names.
Tensor to_ours(const TensorName& named, std::vector<Tensor> theirs);

}  // namespace qkv::inline models
