/// \file
/// A parameter that a layer multiplies by, kept once: laid out for the product, and as plain numbers only while it is
/// trained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/layers/parameter.h"
#include "qkv/matmul.h"

namespace qkv {

class Weights;

/// Safe for concurrent const calls.
class QKV_API PackedParameter {
 public:
  PackedParameter() = default;
  /// `value` [..., in] is matrices one below the other, of so many rows each; none: it is not multiplied by, and kept
  /// as it is.
  PackedParameter(Tensor value, std::vector<std::int64_t> part_rows, WeightStorage storage = WeightStorage::full);

  /// Taken from `weights` in this shape, packed where it has panels: in q8 and q4 blocks where it has them, else in
  /// full storage.
  PackedParameter(Weights& weights, const std::string& name, const Dims& shape, std::vector<std::int64_t> part_rows,
                  WeightStorage storage);

  /// The right operand of x part^T.
  const PackedMatrix& part(std::size_t i = 0) const { return parts_.at(i); }
  Dtype dtype() const { return parts_.empty() ? own_.value.dtype() : parts_[0].dtype(); }

  /// The value, bit for bit; rounded if it is kept in fewer bits. `storage` holds it if it is kept in panels alone.
  TensorView value(Tensor& storage) const;
  /// Where its gradient goes; not given if it is not wanted.
  MutableTensorView gradient() { return own_.has_gradient() ? own_.gradient.view() : MutableTensorView(); }
  bool is_packed() const { return !parts_.empty(); }
  /// Whether the value is in own() as well.
  bool is_kept() const { return parts_.empty() || own_.has_gradient(); }
  const Parameter& own() const { return own_; }
  Parameter& own() { return own_; }

  void visit(const ParameterVisitor& visitor, const std::string& name) const;
  void update(const ParameterUpdater& updater, const std::string& name);

 private:
  Tensor unpacked() const;
  Tensor units() const;
  void pack();
  PackedMatrix packed_part(const TensorView& rows, std::int64_t begin, std::int64_t count) const;
  void drop_value();

  Parameter own_;
  Dims shape_;
  std::vector<std::int64_t> part_rows_;
  std::vector<PackedMatrix> parts_;
};

}  // namespace qkv
