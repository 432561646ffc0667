// The terms that follow scores and scale, and the list of them at the end, in the order in which they apply. Each is a
// class
//   X::is_on(task)                   false: it changes nothing (choose_kernel() asks the same of all);
//   X::apply(tile), X::apply(row)    changes the logits of a block of queries, or of a single one.
// Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_LOGIT_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_LOGIT_TERMS_INL_H_
#undef QKV_ATTENTION_TILE_LOGIT_TERMS_INL_H_
#else
#define QKV_ATTENTION_TILE_LOGIT_TERMS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "attention/tile/logit_tile-inl.h"
#include "attention/tile/relative_rows-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Biases that are arrays, one number for each pair.
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

// Learned numbers per relative position: T5, clipped and Swin tables, and Shaw's rows (relative_rows-inl.h).
template <class T, int kVectors>
struct RelativeTables {
  static bool is_on(const AttentionTask& task) { return task.common->table_count != 0; }

  // `relative`: prepared for the queries of the tile.
  static void apply(const LogitTile<T, kVectors>& tile, const RelativeRows<T, kVectors>& relative) {
    for (int t = 0; t < tile.task.common->table_count; ++t) {
      const TableBias& table = tile.task.tables[t];
      if (table.row_length > 0) {
        relative.add_to(tile.at, tile.key);
      } else if (table.coordinates == nullptr) {
        add_line(table, tile);
      } else {
        add_window(table, tile);
      }
    }
  }

  static void apply(const LogitRow<T>& row) {
    for (int t = 0; t < row.task.common->table_count; ++t) {
      const TableBias& table = row.task.tables[t];
      if (table.row_length > 0) {
        add_relative_row(table, row);
      } else if (table.coordinates == nullptr) {
        add_line(table, row);
      } else {
        add_window(table, row);
      }
    }
  }

 private:
  using Index = hwy::MakeSigned<T>;

  static void add_line(const TableBias& table, const LogitTile<T, kVectors>& tile) {
    const Tag<T> d;
    const T* values = reinterpret_cast<const T*>(table.values);
    const std::int64_t position = tile.begin + tile.task.offset;
    for (int r = 0; r < kTileRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        const T* from = values + table.line_index(position + c * kLanes<T> - (tile.key + r), kLanes<T>);
        T* to = tile.at + (r * kVectors + c) * kLanes<T>;
        hn::Store(hn::Add(hn::Load(d, to), hn::LoadU(d, from)), d, to);
      }
    }
  }

  static void add_line(const TableBias& table, const LogitRow<T>& row) {
    const T* values = reinterpret_cast<const T*>(table.values);
    for (std::int64_t j = row.first; j < row.last; ++j) {
      row.at[j] += values[table.line_index(row.task.offset - (row.chunk + j), 1)];
    }
  }

  static void add_window(const TableBias& table, const LogitTile<T, kVectors>& tile) {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> index;
    const T* values = reinterpret_cast<const T*>(table.values);
    const Index* coordinates = reinterpret_cast<const Index*>(table.coordinates);
    for (int r = 0; r < kTileRows; ++r) {
      const auto of_key = hn::Set(index, coordinates[tile.key + r] - static_cast<Index>(table.center));
      for (int c = 0; c < kVectors; ++c) {
        const auto of_query = hn::LoadU(index, coordinates + tile.begin + tile.task.offset + c * kLanes<T>);
        T* to = tile.at + (r * kVectors + c) * kLanes<T>;
        const Vec<T> bias = hn::GatherIndex(d, values, hn::Sub(of_query, of_key));
        hn::Store(hn::Add(hn::Load(d, to), bias), d, to);
      }
    }
  }

  static void add_window(const TableBias& table, const LogitRow<T>& row) {
    const T* values = reinterpret_cast<const T*>(table.values);
    const Index* coordinates = reinterpret_cast<const Index*>(table.coordinates);
    for (std::int64_t j = row.first; j < row.last; ++j) {
      row.at[j] += values[coordinates[row.task.offset] - coordinates[row.chunk + j] + table.center];
    }
  }
};

// Soft capping: cap * tanh(logit / cap). Source: Gemma Team, "Gemma 2" (2024), section 2.

// Highway's makes integers of its argument, which of NaN is undefined in portable code.
template <class T>
HWY_INLINE Vec<T> tanh(Vec<T> x) {
  const auto is_number = hn::Eq(x, x);
  return hn::IfThenElse(is_number, hn::Tanh(Tag<T>(), hn::IfThenElseZero(is_number, x)), x);
}

template <class T, int kVectors>
struct SoftCap {
  static bool is_on(const AttentionTask& task) { return task.common->soft_cap != 0; }

  static void apply(const LogitTile<T, kVectors>& tile) {
    const Tag<T> d;
    const T cap = static_cast<T>(tile.task.common->soft_cap);
    for (T* at = tile.at; at < tile.at + kTileRows * tile.kColumns; at += kLanes<T>) {
      const Vec<T> ratio = hn::Div(hn::Load(d, at), hn::Set(d, cap));
      hn::Store(hn::Mul(tanh<T>(ratio), hn::Set(d, cap)), d, at);
    }
  }

  // Of whole vectors: what is outside of the row is nobody's.
  static void apply(const LogitRow<T>& row) {
    const Tag<T> d;
    const Vec<T> cap = hn::Set(d, static_cast<T>(row.task.common->soft_cap));
    for (std::int64_t j = row.first / kLanes<T> * kLanes<T>; j < row.last; j += kLanes<T>) {
      hn::Store(hn::Mul(tanh<T>(hn::Div(hn::Load(d, row.at + j), cap)), cap), d, row.at + j);
    }
  }

  // gradients *= 1 - tanh^2(logits / cap), of logits before the cap. A gradient of 0 stays so: the slope of a hidden
  // key may be NaN.
  static void multiply_slope(const AttentionTask& task, const T* logits, T* gradients) {
    const Tag<T> d;
    const Vec<T> cap = hn::Set(d, static_cast<T>(task.common->soft_cap));
    for (int at = 0; at < kTileRows * kVectors * kLanes<T>; at += kLanes<T>) {
      const Vec<T> ratio = tanh<T>(hn::Div(hn::Load(d, logits + at), cap));
      const Vec<T> slope = hn::NegMulAdd(ratio, ratio, hn::Set(d, T(1)));
      const Vec<T> gradient = hn::Load(d, gradients + at);
      hn::Store(hn::IfThenZeroElse(hn::Eq(gradient, hn::Zero(d)), hn::Mul(gradient, slope)), d, gradients + at);
    }
  }
};

// ALiBi: minus a slope times the distance of query and key. Source: Press et al., "Train short, test long" (2021).
template <class T, int kVectors>
struct Alibi {
  static bool is_on(const AttentionTask& task) { return task.alibi_slope != 0; }

  static void apply(const LogitTile<T, kVectors>& tile) {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> index;
    using Index = hwy::MakeSigned<T>;
    const Vec<T> slope = hn::Set(d, static_cast<T>(-tile.task.alibi_slope));
    for (int r = 0; r < kTileRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        // Position of the first lane relative to the key; both lie within 2^31 of each other.
        const std::int64_t distance = tile.begin + tile.task.offset + c * kLanes<T> - (tile.key + r);
        const auto distances = hn::Abs(hn::Iota(index, static_cast<Index>(distance)));
        T* at = tile.at + (r * kVectors + c) * kLanes<T>;
        hn::Store(hn::MulAdd(hn::ConvertTo(d, distances), slope, hn::Load(d, at)), d, at);
      }
    }
  }

  static void apply(const LogitRow<T>& row) {
    for (std::int64_t j = row.first; j < row.last; ++j) {
      row.at[j] -= static_cast<T>(row.task.alibi_slope) * static_cast<T>(std::abs(row.task.offset - (row.chunk + j)));
    }
  }
};

// A function of the user's that changes logits.
template <class T, int kVectors>
struct LogitFunctions {
  static bool is_on(const AttentionTask& task) { return task.common->logit_function != nullptr; }

  static void apply(const LogitTile<T, kVectors>& tile) {
    const std::int64_t keys = std::min<std::int64_t>(kTileRows, tile.task.k_len - tile.key);
    tile.task.common->logit_function->change_tile(PairTile<T>{.first = pair_of(tile.task, tile.begin, tile.key),
                                                              .queries = static_cast<std::int32_t>(tile.count),
                                                              .keys = static_cast<std::int32_t>(keys),
                                                              .query_step = 1,
                                                              .key_step = tile.kColumns,
                                                              .at = tile.at});
  }

  static void apply(const LogitRow<T>& row) {
    row.task.common->logit_function->change_tile(PairTile<T>{.first = pair_of(row.task, 0, row.chunk + row.first),
                                                             .queries = 1,
                                                             .keys = static_cast<std::int32_t>(row.last - row.first),
                                                             .query_step = kChunkKeys,
                                                             .key_step = 1,
                                                             .at = row.at + row.first});
  }
};

template <class T, int kVectors>
struct LogitTerms {
  static void apply(const LogitTile<T, kVectors>& tile, const RelativeRows<T, kVectors>& relative) {
    each(tile.task, [&]<class Term>(Term) {
      if constexpr (requires { Term::apply(tile, relative); }) {
        Term::apply(tile, relative);
      } else {
        Term::apply(tile);
      }
    });
  }

  static void apply(const LogitRow<T>& row) {
    each(row.task, [&]<class Term>(Term) { Term::apply(row); });
  }

  // Whether biases in arrays are all that changes the logits.
  static bool are_biases_alone(const AttentionTask& task) {
    bool alone = false, others = false;
    each(task, [&]<class Term>(Term) { (std::is_same_v<Term, BiasArrays<T, kVectors>> ? alone : others) = true; });
    return alone && !others;
  }

 private:
  template <class Visit>
  static HWY_INLINE void each(const AttentionTask& task, const Visit& visit) {
    visit_terms<SoftCap<T, kVectors>, BiasArrays<T, kVectors>, Alibi<T, kVectors>, RelativeTables<T, kVectors>,
                LogitFunctions<T, kVectors>>(task, visit);
  }

  template <class... Terms, class Visit>
  static HWY_INLINE void visit_terms(const AttentionTask& task, const Visit& visit) {
    ((Terms::is_on(task) ? visit(Terms()) : void()), ...);
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
