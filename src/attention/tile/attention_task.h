// What every kernel is given about one head of one sequence: addresses, steps in elements, and the mask as numbers.
// Plain data, filled from the checked arguments of a call; kernels themselves check nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "attention/options/dropout.h"
#include "core/visit_dtype.h"
#include "qkv/attention/attention_function.h"
#include "qkv/attention/precision.h"
#include "qkv/attention/score.h"
#include "simd/rows.h"

namespace qkv::inline attending {

// Keys are reduced in chunks of this length, each from a fresh state; the partial results are merged in index order. So
// the bits of a row do not depend on who computes which chunk.
inline constexpr std::int64_t kChunkKeys = 1024;

// Keys whose weights are held at once: 128 x 48 floats are 24 KiB, half of a first-level cache.
inline constexpr std::int64_t kBlockKeys = 128;
static_assert(kChunkKeys % kBlockKeys == 0);

// Keys first <= j < last; none if first == last.
struct KeyRange {
  std::int64_t first, last;
  bool operator==(const KeyRange&) const = default;
};

// An element (query i, key j) at data + i * query_step + j * key_step.
struct Plane {
  const std::byte* data = nullptr;
  std::int64_t query_step = 0;
  std::int64_t key_step = 0;
};

// What BooleanBlocks knows of a plane: the words of query i's group at group i / 16 * group_step. nullptr: nothing.
struct PlaneBlocks {
  const std::uint64_t* some = nullptr;
  const std::uint64_t* every = nullptr;
  std::int64_t group_step = 0;
};

inline constexpr int kMaxPlanes = 4;

// A learned number per relative position, of one head. Either a line of them, in which that of a query at p and a key
// at j has index reach + p - j, clamped to -1 ... 2 reach + 1; or those of a window, at coordinates[p] - coordinates[j]
// + center. Around both there is room for a vector and more: numbers and coordinates repeat their ends. Or Shaw's
// 2 reach + 1 rows of row_length numbers: scale times the query by row reach + p - j, clamped.
struct TableBias {
  const std::byte* values = nullptr;
  std::int64_t reach = 0;
  const std::byte* coordinates = nullptr;  // integers of the width of the accumulation; nullptr: a line
  std::int64_t center = 0;
  std::int64_t row_length = 0;  // not Shaw's: 0
  std::int64_t numbers = 0;     // with the room around a line

  // Where, in a line, the first of `lanes` neighbouring queries finds its number; its position is `distance` behind the
  // key's.
  std::int64_t line_index(std::int64_t distance, std::int64_t lanes) const {
    return std::clamp(reach + distance, -lanes, 2 * reach + 1);
  }
  // The row of a query `distance` positions behind the key.
  std::int64_t row_index(std::int64_t distance) const {
    return std::clamp<std::int64_t>(reach + distance, 0, 2 * reach);
  }
};

inline constexpr std::int64_t kTablePadding = 64;

inline constexpr std::int64_t kNoPrefix = std::numeric_limits<std::int64_t>::max();

// One number per query or key, or a row: that of query i at data + i * step. nullptr: not asked for.
struct OutputRows {
  std::byte* data = nullptr;
  std::int64_t step = 0;
};

// A row whose weights are asked for by itself: row `place` of row_weights.
struct ChosenRow {
  std::int64_t sequence, head, query, place;
};

// What multiplies in a block of queries: f32 or f64; exactly, pairs of bf16 (queries by keys alone) or tiles of bf16;
// or with numbers rounded to bf16, floats, tiles with the same bits, or pairs.
enum class BlockProduct { exact, pairs, tiles, reduced, reduced_tiles, reduced_pairs };

// What all heads of a call have in common, filled once.
struct CommonTask {
  std::int64_t query_dim = 0, key_dim = 0, value_dim = 0;
  Dtype out_type = Dtype::f32;

  double scale = 1;
  double soft_cap = 0;  // 0: off
  Score::Kind score = Score::Kind::scaled_dot;
  std::int64_t hidden = 0;          // of additive scores
  Rows score_w_query, score_w_key;  // [hidden, query_dim] and [hidden, key_dim], or w_query [query_dim, key_dim]
  const std::byte* score_v = nullptr;

  std::int64_t left = 0, right = 0;        // of AttentionTask's window
  std::int64_t step = 1;                   // of positions that a key may be away
  std::span<const std::int64_t> chunks{};  // a query sees its own chunk of each of these sizes
  const MaskFunction* mask_functions = nullptr;
  std::size_t mask_function_count = 0;
  int boolean_count = 0, bias_count = 0, table_count = 0;
  const LogitFunction* logit_function = nullptr;

  DropoutRule dropout;

  std::int64_t row_length = 0;  // of weights and logits; beyond k_len: 0 and -infinity
  std::int64_t top_count = 0;
  std::int64_t block_rows = 0, block_columns = 0, block_step = 0;
};

class WeightSums;

struct AttentionTask {
  const CommonTask* common = nullptr;

  Rows query, key, value;
  std::int64_t q_len = 0, k_len = 0;
  std::int64_t sequence = 0, head = 0;
  std::int64_t period = 0;  // not 0: rows are queries of several heads (folded_heads.h), row i its head's i % period

  // Chosen by attention_call.cc.
  Precision precision = Precision::exact;
  BlockProduct product = BlockProduct::exact;
  bool is_plain = false;  // nothing between products and softmax but a scale: logits may stay bare, in registers

  // Query i sees keys j with i + offset - left <= j <= i + offset + right and j < length,
  std::int64_t offset = 0, length = 0;
  std::int64_t prefix = kNoPrefix;          // and j < prefix or j <= i + offset,
  const KeyRange* document_keys = nullptr;  // per query: from the first to the last key of its document
  // Numbers of documents, where the keys of one are scattered: keys of other numbers in between are hidden.
  const std::int32_t* query_documents = nullptr;
  const std::int32_t* key_documents = nullptr;
  Plane booleans[kMaxPlanes];  // bytes, not 0 = visible
  PlaneBlocks boolean_blocks[kMaxPlanes];
  Plane biases[kMaxPlanes];
  double alibi_slope = 0;
  TableBias tables[kMaxPlanes];
  double sink = -std::numeric_limits<double>::infinity();  // the natural logit of a key without a value

  // visitor(T()) with the type that it is accumulated in: double for f64, else float.
  template <class Visitor>
  decltype(auto) visit_accumulation(Visitor&& visitor) const {
    return visit_f32_f64(query.type, visitor);
  }

  OutputRows out, log_sum_exp;
  OutputRows weights, logits;
  OutputRows row_weights;  // of `chosen` alone, rows of one block, in the order of their queries
  const ChosenRow* chosen = nullptr;
  std::int64_t chosen_count = 0;
  OutputRows row_maximum, entropy;
  OutputRows self_weight, previous_weight;
  OutputRows top_keys, top_weights;
  // Sums over all queries: in the task of a block, where they are kept (weight_sums.h).
  WeightSums* sums = nullptr;
  OutputRows received;
  std::byte* block_weights = nullptr;  // [block_rows][block_columns], rows block_step apart
};

// Whether the score goes through a hidden layer.
inline bool is_additive(Score::Kind score) { return score == Score::Kind::additive || score == Score::Kind::concat; }

// Which query of its head row i is.
inline std::int64_t query_of_row(const AttentionTask& task, std::int64_t i) {
  return task.period == 0 ? i : i % task.period;
}

// Shaw's table, or nullptr.
inline const TableBias* rows_table(const AttentionTask& task) {
  for (int t = 0; t < task.common->table_count; ++t) {
    if (task.tables[t].row_length > 0) return &task.tables[t];
  }
  return nullptr;
}

// Numbers of a head that have gradients: those of its tables, and the slope of ALiBi.
inline std::int64_t parameter_count(const AttentionTask& task) {
  std::int64_t count = 1;
  for (int t = 0; t < task.common->table_count; ++t) count += task.tables[t].numbers;
  return count;
}

// Query i and key j, for a user's function.
inline Pair pair_of(const AttentionTask& task, std::int64_t i, std::int64_t j) {
  const auto narrow = [](std::int64_t index) { return static_cast<std::int32_t>(index); };
  return {narrow(task.sequence), narrow(task.head), narrow(i), narrow(j), narrow(i + task.offset)};
}

// How queries are cut into blocks. Where the last one's would be no more than `rest`, it takes so many from the block
// before it: it would need as long without them.
struct QueryBlocks {
  std::int64_t queries = 0, rest = 0;

  // The end of the block that begins with query `begin` of q_len.
  std::int64_t end_of(std::int64_t begin, std::int64_t q_len) const {
    const std::int64_t end = std::min(begin + queries, q_len);
    return end < q_len && end + rest >= q_len ? end - rest : end;
  }
};

// Blocks of queries, keys of a tile, how many blocks of a head gain from being given to one thread at once, bytes of
// scratch that this thread needs, and of a block's partial result.
struct ForwardPlan {
  QueryBlocks blocks;
  std::int64_t tile_keys;
  int blocks_together;
  std::size_t scratch_bytes;
  std::size_t part_bytes;
};

}  // namespace qkv::inline attending
