// The backward kernel behind its dispatch: one block of queries against one chunk of keys. Call ensure_target() before.
#pragma once

#include "attention/tangent/jvp_kernel.h"
#include "attention/tile/attention_task.h"
#include "qkv/dtype.h"

namespace qkv::inline attending {

// What the kernel gets beyond the forward task. Rows of keys and values must be of the accumulation's type.
struct BackwardTask {
  AttentionTask forward;
  Rows out, grad_out;
  const std::byte* log_sum_exp = nullptr;
  std::int64_t log_sum_exp_step = 0;
  // To add to, from the chunk's first key on.
  int bias_count = 0;
  Plane bias_gradients[kMaxPlanes];
  // Of the double backward, whose loss is grad_out times the tangent of out.
  bool is_double = false;
  TaskTangents tangents;
  Rows out_tangent;
  OutputRows log_sum_exp_tangent, weight_sum;  // of jvp_kernel.h, to read
};

struct BackwardPlan {
  std::int64_t block_queries = 0;
  std::int64_t sum_queries = 0;                     // of a block, whose share of a sink's gradient is one sum
  std::int64_t score_dim = 0;                       // of queries and keys; of their hidden layers for additive scores
  std::int64_t key_columns = 0, value_columns = 0;  // row lengths of the sums over queries: sizes rounded up to vectors
  std::size_t scratch_bytes = 0;
};

// Queries whose blocks follow each other in order, whatever the height of a block: the order of sums over queries is
// one on every target.
inline constexpr std::int64_t kOrderedQueries = 48;

BackwardPlan plan_backward(const BackwardTask& task);

// Rows first <= i < last of 16-bit elements in f32, [last - first][size].
void widen_rows(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size, std::byte* to);

// to[i] = scale * from[i], for rows of the accumulation's type and rows of `type`. Overwrites `from`.
struct RowsToWrite {
  std::byte* from;
  std::int64_t from_step, count, size;
  std::byte* to;
  std::int64_t to_step;
};
void write_scaled(const RowsToWrite& rows, Dtype type, double scale);

// Keys of a tile at most, on any target: sums are of whole tiles.
inline constexpr std::int64_t kMostTileKeys = 8;

// Sums over queries for the keys of one chunk, in the accumulation's type: [keys][key_columns] and
// [keys][value_columns], and [hidden] for additive scores. The keys' and score_v still lack the scale.
struct ChunkSums {
  std::byte* key;
  std::byte* value;
  std::byte* score_v = nullptr;
  std::byte* parameters = nullptr;  // of tables and slopes, parameter_count() numbers; nullptr: not wanted
  double* sink = nullptr;           // of each sum_queries of the block, 0 before their first chunk; nullptr: not wanted
};

// Adds the share of queries begin <= i < end to `sums`, for keys of the chunk that begins at `chunk`. Returns the
// queries' gradient from these keys, [end - begin][score_dim], inside `scratch`; nullptr if none of the queries sees
// one of them.
const std::byte* attend_backward(const BackwardTask& task, std::int64_t begin, std::int64_t end, std::int64_t chunk,
                                 const ChunkSums& sums, const ScratchRoom& scratch);

}  // namespace qkv::inline attending
