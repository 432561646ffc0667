/// \file
/// Attention over inputs of any length as maps that a report holds: of every head averages of the weights over blocks,
/// of chosen heads the strongest keys of each query and whole rows, exact. No [queries, keys] array is made.
///
///     AttentionMaps maps(Dims{8, 10'000}, 10'000, Dtype::f32, {.keep = {{.head = 2}}, .keep_rows = {17}});
///     attention(q, k, v, out, options, maps.extras());
///     report.add(maps);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/attention.h"
#include "qkv/attention/attention_plan.h"

namespace qkv {

struct MapHead {
  std::int64_t batch = 0;  ///< of all dimensions before the heads together
  std::int64_t head = 0;
  bool operator==(const MapHead&) const = default;
};

struct AttentionMapsOptions {
  std::vector<MapHead> keep{};            ///< at most 4
  std::vector<std::int64_t> keep_rows{};  ///< at most 16 queries, whose whole rows are kept of these heads
  std::size_t bytes = 19'000'000;         ///< that all of it may take in a report
};

class QKV_API AttentionMaps {
 public:
  static constexpr std::int64_t kWhole = 64;  ///< queries and keys of which every weight is kept
  static constexpr std::size_t kMostKept = 4, kMostRows = 16;
  static constexpr std::int64_t kTop = 32;  ///< keys of a query

  /// `rows` [..., heads, queries] are the query's dimensions without the last, `dtype` the type of the extras.
  /// std::invalid_argument if there is no such head or row, or if there is more than fits.
  AttentionMaps(const Dims& rows, std::int64_t keys, Dtype dtype, const AttentionMapsOptions& options = {});

  /// The outputs for a call of attention(), in borrowed memory of this object.
  AttentionExtras extras();

  std::int64_t batch() const { return batch_; }
  std::int64_t heads() const { return heads_; }
  std::int64_t queries() const { return queries_; }
  std::int64_t keys() const { return keys_; }
  Dtype dtype() const { return dtype_; }
  const std::vector<MapHead>& keep() const { return keep_; }
  const std::vector<std::int64_t>& keep_rows() const { return keep_rows_; }
  bool whole() const { return whole_; }  // every weight is kept

  /// The call's plan(), if given.
  const std::optional<AttentionPlan>& cost() const { return cost_; }
  void set_cost(const AttentionPlan& cost) { cost_ = cost; }

  /// For one head: [r, c]; [queries, top]; [kept rows, keys].
  TensorView blocks(const MapHead& head) const;
  TensorView top_keys(const MapHead& head) const;
  TensorView top_weights(const MapHead& head) const;
  TensorView rows(const MapHead& head) const;  ///< of a head that is kept

 private:
  std::int64_t batch_ = 1, heads_ = 1, queries_ = 0, keys_ = 0;
  Dims leading_{};  ///< dimensions before the queries
  Dtype dtype_;
  bool whole_ = false;
  std::optional<AttentionPlan> cost_{};
  std::vector<MapHead> keep_{};
  std::vector<std::int64_t> keep_rows_{};
  Tensor blocks_{}, top_keys_{}, top_weights_{}, chosen_{}, row_weights_{};
};

/// One JSON object (docs/explain_json.md): cells as bytes, kept numbers as the bytes of their type, in base64.
QKV_API std::string to_json(const AttentionMaps& maps);

}  // namespace qkv
