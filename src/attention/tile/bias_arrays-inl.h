// Biases that are arrays, one number for each pair. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_BIAS_ARRAYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_BIAS_ARRAYS_INL_H_
#undef QKV_ATTENTION_TILE_BIAS_ARRAYS_INL_H_
#else
#define QKV_ATTENTION_TILE_BIAS_ARRAYS_INL_H_
#endif

#include <algorithm>

#include "attention/tile/logit_tile-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, int kVectors>
struct BiasArrays {
  static constexpr int kColumns = kVectors * kLanes<T>;
  using Tile = Vec<T>[kTileRows][kVectors];

  static bool is_on(const AttentionTask& task) { return task.common->bias_count != 0; }

  static HWY_NOINLINE void apply(const LogitTile<T, kVectors>& tile) {
    const Tag<T> d;
    Tile logits;
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) logits[r][c] =
          hn::Load(d, tile.at + (r * kVectors + c) * kLanes<T>);
    }
    add(tile.task, tile.begin, tile.count, tile.key, logits);
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c)
          hn::Store(logits[r][c], d, tile.at + (r * kVectors + c) * kLanes<T>);
    }
  }

  // The same for logits in registers.
  static HWY_INLINE void add(const AttentionTask& task, std::int64_t begin, std::int64_t count, std::int64_t key,
                             Tile& tile) {
    for (int p = 0; p < task.common->bias_count; ++p) {
      const Plane& plane = task.biases[p];
      const T* bias = reinterpret_cast<const T*>(plane.data) + begin * plane.query_step + key * plane.key_step;
      const std::int64_t keys = std::min<std::int64_t>(kTileRows, task.k_len - key);
      const bool is_whole = count == kColumns && keys == kTileRows;
      if (is_whole && plane.query_step == 0) {
        add_rows(bias, plane.key_step, tile);
      } else if (is_whole && plane.key_step == 1) {
        if (key + kLine < task.k_len) fetch_line(bias + kLine, plane.query_step, key);
        add_columns(bias, plane.query_step, tile);
      } else if (is_whole && plane.query_step == 1) {
        add_lanes(bias, plane.key_step, tile);
      } else {
        add_numbers(plane, bias, count, keys, tile);
      }
    }
  }

  static void apply(const LogitRow<T>& row) {
    const Tag<T> d;
    for (int p = 0; p < row.task.common->bias_count; ++p) {
      const Plane& plane = row.task.biases[p];
      const T* bias = reinterpret_cast<const T*>(plane.data) + row.chunk * plane.key_step;
      std::int64_t j = row.first;
      if (plane.key_step == 1) {
        for (; j + kLanes<T> <= row.last; j += kLanes<T>) {
          hn::StoreU(hn::Add(hn::LoadU(d, row.at + j), hn::LoadU(d, bias + j)), d, row.at + j);
        }
      }
      for (; j < row.last; ++j) row.at[j] += bias[j * plane.key_step];
    }
  }

 private:
  static constexpr std::int64_t kLine = 64 / sizeof(T);

  // One number of each key, for all queries.
  static HWY_INLINE void add_rows(const T* bias, std::int64_t key_step, Tile& tile) {
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      const Vec<T> number = hn::Set(Tag<T>(), bias[r * key_step]);
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) tile[r][c] = hn::Add(tile[r][c], number);
    }
  }

  // The numbers of a key lie together, or are one row for all keys.
  static HWY_INLINE void add_lanes(const T* bias, std::int64_t key_step, Tile& tile) {
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
        tile[r][c] = hn::Add(tile[r][c], hn::LoadU(Tag<T>(), bias + r * key_step + c * kLanes<T>));
      }
    }
  }

  // The numbers of a query lie together: read as vectors of keys, and transposed.
  static HWY_INLINE void add_columns(const T* bias, std::int64_t query_step, Tile& tile) {
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      QKV_UNROLL for (int r = 0; r < kTileRows; r += kBlockLanes<T>) {
        Vec<T> columns[kBlockLanes<T>];
        load_columns<T>(bias + c * kLanes<T> * query_step + r, query_step, columns);
        QKV_UNROLL for (int i = 0; i < kBlockLanes<T>; ++i) tile[r + i][c] = hn::Add(tile[r + i][c], columns[i]);
      }
    }
  }

  // Asks for the next line of some of the queries, those whose turn it is: more rows than a processor foresees, and
  // often so far apart that they share few places of the first cache.
  static HWY_INLINE void fetch_line(const T* next, std::int64_t query_step, std::int64_t key) {
    constexpr std::int64_t kTurns = std::max<std::int64_t>(kLine / kTileRows, 1);
    for (std::int64_t i = key / kTileRows % kTurns; i < kColumns; i += kTurns) {
      __builtin_prefetch(next + i * query_step, /*rw=*/0, /*locality=*/2);
    }
  }

  // Any other layout, and the ends of queries and keys: what lies beyond gets 0.
  static HWY_INLINE void add_numbers(const Plane& plane, const T* bias, std::int64_t count, std::int64_t keys,
                                     Tile& tile) {
    HWY_ALIGN T numbers[kTileRows * kColumns];
    read_numbers(plane, bias, count, keys, numbers);
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
        tile[r][c] = hn::Add(tile[r][c], hn::Load(Tag<T>(), numbers + (r * kVectors + c) * kLanes<T>));
      }
    }
  }

  static HWY_NOINLINE void read_numbers(const Plane& plane, const T* bias, std::int64_t count, std::int64_t keys,
                                        T* numbers) {
    std::fill(numbers, numbers + kTileRows * kColumns, T(0));
    for (std::int64_t r = 0; r < keys; ++r, bias += plane.key_step) {
      for (std::int64_t i = 0; i < count; ++i) numbers[r * kColumns + i] = bias[i * plane.query_step];
    }
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
