/// \file
/// Learned tables of relative positions: a number per head and bucket, or a vector per bucket that the query is
/// multiplied with; the bucket follows from the positions p of the query and j of the key (mask.h). Added to the logits
/// by a Bias (bias.h), at most four of them, one of which may be of Shaw's kind.
#pragma once

#include <cstdint>

#include "qkv/api.h"
#include "qkv/tensor.h"

namespace qkv {

class QKV_API RelativeTable {
 public:
  enum class Kind { clipped, t5, swin, shaw };

  /// `values` of all: [buckets, heads], of shaw [buckets, head_dim]; of any floating type, borrowed.
  /// std::invalid_argument if its shape does not fit.

  /// bucket = clamp(j - p, -n, n) + n; values [2 n + 1, heads].
  static RelativeTable clipped(TensorView values);

  /// scale * (q . values[bucket]) is added, with the buckets of `clipped`, n at most kMostShawDistance; one table at
  /// most, for the scores dot and scaled dot. Source: Shaw et al., "Self-attention with relative position
  /// representations" (2018): the part of the keys, shared by the heads.
  static constexpr std::int64_t kMostShawDistance = 512;
  static RelativeTable shaw(TensorView values);

  struct T5Buckets {
    bool bidirectional = true;  ///< half of the buckets for keys after the query; else these share bucket 0
    std::int64_t max_distance = 128;
  };
  /// One bucket for each small distance, then ever wider ones up to max_distance, and one for all beyond.
  /// Source: Raffel et al., "Exploring the limits of transfer learning with a unified text-to-text transformer" (2020).
  static RelativeTable t5(TensorView values, const T5Buckets& buckets);
  static RelativeTable t5(TensorView values) { return t5(values, T5Buckets{}); }

  /// Positions are the cells of a window of height x width, row by row; bucket = (dy + height - 1) (2 width - 1) + dx +
  /// width - 1, where (dy, dx) leads from the key's cell to the query's; values [(2 height - 1) (2 width - 1), heads].
  /// Source: Liu et al., "Swin Transformer: hierarchical vision transformer using shifted windows" (2021).
  static RelativeTable swin(TensorView values, std::int64_t height, std::int64_t width);

  std::int64_t bucket(std::int64_t p, std::int64_t j) const;

  Kind kind() const { return kind_; }
  const TensorView& values() const { return values_; }
  /// Beyond this distance buckets no longer change (all but swin).
  std::int64_t max_distance() const { return max_distance_; }
  std::int64_t height() const { return height_; }  // of the window (swin)
  std::int64_t width() const { return width_; }

 private:
  RelativeTable(Kind kind, TensorView values);

  Kind kind_;
  TensorView values_;
  bool bidirectional_ = true;
  std::int64_t max_distance_ = 0, height_ = 0, width_ = 0;
};

}  // namespace qkv
