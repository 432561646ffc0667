// The cosines and sines by which a head rotates, made when a position occurs first and kept, unless it is far: layers
// of a model share them.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "qkv/layers/positions.h"

namespace qkv {

// Of positions, in their order: what RotaryAngles keeps, and its own of far ones.
struct RotaryRows {
  std::vector<const std::byte*> rows{};  // each the cosines, then the sines, of one type
  std::vector<Tensor> far{};
};

// Safe for concurrent calls.
class RotaryAngles {
 public:
  RotaryAngles(const RotaryConfig& config, std::int64_t head_dim);
  // Those of all layers that rotate alike, while one of them is there.
  static std::shared_ptr<RotaryAngles> shared(const RotaryConfig& config, std::int64_t head_dim);

  // `dtype`: of the rows that are to be rotated.
  RotaryRows of(std::span<const std::int32_t> positions, Dtype dtype);

  // As rotate_heads(), of rows whose heads have this size and which may lie a stride apart, by those of `angles` from
  // `first` on.
  void rotate(const RotaryRows& angles, std::int64_t first, std::int64_t heads, const MutableTensorView& rows,
              int direction, int threads) const;

 private:
  Tensor make_page(std::int32_t page, Dtype dtype) const;

  const RotaryConfig config_;
  const std::int64_t half_;
  const std::vector<double> frequencies_;  // of the positions that a dynamic scaling does not change
  std::mutex mutex_;
  std::unordered_map<std::int32_t, Tensor> floats_, doubles_;  // pages of near positions, [positions, 2 half_]
};

}  // namespace qkv
