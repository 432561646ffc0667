// The cosines and sines by which a head rotates, made when a position occurs first and kept: layers of a model share
// them.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "qkv/layers/positions.h"

namespace qkv {

// Safe for concurrent calls.
class RotaryAngles {
 public:
  RotaryAngles(const RotaryConfig& config, std::int64_t head_dim);
  // Those of all layers that rotate alike, while one of them is there.
  static std::shared_ptr<RotaryAngles> shared(const RotaryConfig& config, std::int64_t head_dim);

  // As rotate_heads(), of rows whose heads have this size.
  void rotate(std::span<const std::int32_t> positions, std::int64_t heads, Tensor& rows, int direction, int threads);

 private:
  template <class T>
  using Table = std::unordered_map<std::int32_t, std::vector<T>>;  // of each position its cosines, then its sines

  // Of each position.
  template <class T>
  std::vector<const T*> rows_of(std::span<const std::int32_t> positions, Table<T>& table);

  const RotaryConfig config_;
  const std::int64_t half_;
  const std::vector<double> frequencies_;  // of the positions that a dynamic scaling does not change
  std::mutex mutex_;
  Table<float> floats_;
  Table<double> doubles_;
};

}  // namespace qkv
