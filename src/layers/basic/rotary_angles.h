// The cosines and sines by which a head rotates, made when a position occurs first and kept, those of far ones for a
// while: layers of a model share them.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "qkv/layers/positions.h"

namespace qkv {

// Of positions, in their order; of far ones it shares what RotaryAngles may let go of.
struct RotaryRows {
  std::vector<const std::byte*> rows{};  // each the cosines, then the sines, of one type
  std::vector<std::shared_ptr<const Tensor>> far{};
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
  struct FarPage {
    std::int32_t page;
    std::shared_ptr<const Tensor> angles;
  };

  Tensor make_page(std::int32_t page, Dtype dtype) const;
  std::shared_ptr<const Tensor> far_page(std::int32_t page, Dtype dtype);

  const RotaryConfig config_;
  const std::int64_t half_;
  const std::vector<double> frequencies_;  // of the positions that a dynamic scaling does not change
  std::mutex mutex_;
  std::unordered_map<std::int32_t, Tensor> floats_, doubles_;  // pages of near positions, [positions, 2 half_]
  std::deque<FarPage> last_{};                                 // the newest one at the end
};

}  // namespace qkv
