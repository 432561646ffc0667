// Rounds to bf16: rows and columns into floats, words of two neighbours along the depth, or tiles of words, and panels
// into words.
#include "ops/matmul/reduced_rows.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/reduced_rows.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/matmul/tiled_panel.h"
#include "simd/bf16_chains-inl.h"
#include "simd/bf16_products-inl.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

constexpr std::int64_t kTurnedColumns = 16;  // at a time

HWY_INLINE void round_floats(const float* x, std::int64_t count, float* to) {
  const Tag<float> d;
  std::int64_t i = 0;
  for (; i + kLanes<float> <= count; i += kLanes<float>) hn::StoreU(round_to_bf16(hn::LoadU(d, x + i)), d, to + i);
  for (; i < count; ++i) to[i] = static_cast<float>(reduced_factor(x[i]));
}

void round_to_floats(const ReducedRows& rows) {
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    float* to = rows.to + r * rows.to_step;
    round_floats(rows.from + r * rows.row_step, rows.depth, to);
    std::fill(to + rows.depth, to + rows.filled, 0.0f);
  }
}

void round_columns_to_floats(const ReducedColumns& all) {
  for (std::int64_t c = 0; c < all.columns; c += kTurnedColumns) {
    const std::int64_t columns = std::min(kTurnedColumns, all.columns - c);
    float* to = all.to + c * all.filled + all.begin;
    transpose(all.from + c, all.row_step, all.count, columns, to, all.filled);
    for (std::int64_t i = 0; i < columns; ++i, to += all.filled) round_floats(to, all.count, to);
  }
}

void store_sums(const TiledSums& sums) {
  const Tag<float> d;
  for (std::int64_t r = 0; r < sums.rows; ++r) {
    const float* from = sums.sums + r * kTiledColumns;
    float* to = sums.out + r * sums.out_stride;
    std::int64_t c = 0;
    for (; c + kLanes<float> <= sums.columns; c += kLanes<float>) {
      const Vec<float> sum = hn::LoadU(d, from + c);
      hn::StoreU(sums.bias == nullptr ? sum : hn::Add(sum, hn::LoadU(d, sums.bias + c)), d, to + c);
    }
    for (; c < sums.columns; ++c) to[c] = sums.bias == nullptr ? from[c] : from[c] + sums.bias[c];
  }
}

#if HWY_TARGET == HWY_AVX3

// Floats of one vector of words.
constexpr std::int64_t kWordFloats = 2 * kLanes<float>;

HWY_INLINE void round_vector(const float* x, float* to) {
  const Tag<float> d;
  _mm512_storeu_si512(to, round_to_bf16(hn::LoadU(d, x), hn::LoadU(d, x + kLanes<float>)));
}

void round_part(const float* x, std::int64_t depth, std::int64_t filled, float* to) {
  auto* words = reinterpret_cast<BFloat16*>(to);
  for (std::int64_t i = 0; i < depth; ++i) words[i] = reduced_factor(x[i]);
  for (std::int64_t i = depth; i < filled; ++i) words[i] = BFloat16();
}

// A row, each vector of words `step` words after the one before it.
HWY_INLINE void round_row(const float* x, std::int64_t depth, std::int64_t filled, std::int64_t step, float* to) {
  std::int64_t i = 0;
  for (; i + kWordFloats <= depth; i += kWordFloats, to += step) round_vector(x + i, to);
  if (i < filled) round_part(x + i, depth - i, filled - i, to);
}

void round_to_rows(const ReducedRows& rows) {
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    round_row(rows.from + r * rows.row_step, rows.depth, rows.filled, kLanes<float>, rows.to + r * rows.to_step);
  }
}

void round_to_tiles(const ReducedRows& rows) {
  static_assert(kWordFloats == kTiledDepth);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    float* to = rows.to + r / kTiledSide * kTiledSide * rows.to_step + r % kTiledSide * kTiledSide;
    round_row(rows.from + r * rows.row_step, rows.depth, rows.filled, kTiledSide * kTiledSide, to);
  }
}

// Columns are neighbours: words of vectors of two rows.
void pack_across(const ReducedStrip& strip) {
  const Tag<float> d;
  auto* to = reinterpret_cast<float*>(strip.to);
  for (std::int64_t k = 0; k < strip.rows; k += 2, to += strip.width) {
    const float* row = strip.from + k * strip.row_step;
    const bool is_last = k + 1 == strip.rows;
    for (std::int64_t c = 0; c < strip.columns; c += kLanes<float>) {
      const auto some = hn::FirstN(d, static_cast<std::size_t>(strip.columns - c));
      const Vec<float> first = hn::MaskedLoad(some, d, row + c);
      const Vec<float> second = is_last ? hn::Zero(d) : hn::MaskedLoad(some, d, row + strip.row_step + c);
      hn::StoreU(to_pairs(first, second), d, to + c);
    }
  }
}

// Neighbours of a column, with zeros behind the last.
HWY_INLINE Vec<float> load_neighbours(const float* from, std::int64_t step, std::int64_t count) {
  const Tag<float> d;
  count = std::clamp<std::int64_t>(count, 0, kLanes<float>);
  if (HWY_LIKELY(step == 1)) return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, from);
  HWY_ALIGN float x[kLanes<float>] = {};
  for (std::int64_t i = 0; i < count; ++i) x[i] = from[i * step];
  return hn::Load(d, x);
}

// Words of 16 columns, column by column, become rows of the panel.
void pack_along(const ReducedStrip& strip) {
  static_assert(kTurnedRows == kWordFloats && kTurnedColumns == kLanes<float>);
  const Tag<float> d;
  auto* to = reinterpret_cast<float*>(strip.to);
  for (std::int64_t k = 0; k < strip.rows; k += kTurnedRows) {
    const std::int64_t count = std::min(kTurnedRows, strip.rows - k);
    for (std::int64_t c = 0; c < strip.columns; c += kTurnedColumns) {
      const float* from = strip.from + k * strip.row_step + c * strip.column_step;
      Vec<float> words[kTurnedColumns];
      QKV_UNROLL for (int i = 0; i < kTurnedColumns; ++i, from += strip.column_step) {
        const std::int64_t present = c + i < strip.columns ? count : 0;
        const Vec<float> low = load_neighbours(from, strip.row_step, present);
        const Vec<float> high =
            load_neighbours(from + kLanes<float> * strip.row_step, strip.row_step, present - kLanes<float>);
        words[i] = Vec<float>{_mm512_castsi512_ps(round_to_bf16(low, high))};
      }
      transpose_square<float>(words);
      QKV_UNROLL for (int i = 0; i < kTurnedRows / 2; ++i) {
        if (2 * i < count) hn::StoreU(words[i], d, to + (k / 2 + i) * strip.width + c);
      }
    }
  }
}

// Words of pairs of rows become rows of words, `step` floats apart, those of 16 columns from c on at to(c).
template <class To>
HWY_INLINE void turn_columns(const ReducedColumns& all, std::int64_t step, const To& to) {
  constexpr std::int64_t kWords = kTurnedRows / 2;
  const Tag<float> d;
  const auto present = hn::FirstN(d, static_cast<std::size_t>(std::min(kWords, (all.filled - all.begin) / 2)));
  for (std::int64_t c = 0; c < all.columns; c += kTurnedColumns) {
    const std::int64_t columns = std::min(kTurnedColumns, all.columns - c);
    const auto some = hn::FirstN(d, static_cast<std::size_t>(columns));
    const auto row = [&](std::int64_t r) {
      return HWY_LIKELY(r < all.count) ? hn::MaskedLoad(some, d, all.from + r * all.row_step + c) : hn::Zero(d);
    };
    Vec<float> words[kWords];
    QKV_UNROLL for (int i = 0; i < kWords; ++i) words[i] = to_pairs(row(2 * i), row(2 * i + 1));
    transpose_square<float>(words);
    float* place = to(c);
    QKV_UNROLL for (int i = 0; i < kTurnedColumns; ++i) {
      if (HWY_LIKELY(i < columns)) hn::BlendedStore(words[i], present, d, place + i * step);
    }
  }
}

void round_columns_to_rows(const ReducedColumns& all) {
  const std::int64_t words = all.filled / 2;
  turn_columns(all, words, [&](std::int64_t c) { return all.to + c * words + all.begin / 2; });
}

void round_columns_to_tiles(const ReducedColumns& all) {
  static_assert(kTurnedColumns == kTiledSide && kTurnedRows == kTiledDepth);
  turn_columns(all, kTiledSide,
               [&](std::int64_t c) { return all.to + c * (all.filled / 2) + all.begin / 2 * kTiledSide; });
}

void pack_strip(const ReducedStrip& strip) { strip.column_step == 1 ? pack_across(strip) : pack_along(strip); }

#else  // no CPU of these has words

void round_to_rows(const ReducedRows&) {}
void round_to_tiles(const ReducedRows&) {}
void round_columns_to_rows(const ReducedColumns&) {}
void round_columns_to_tiles(const ReducedColumns&) {}
void pack_strip(const ReducedStrip&) {}

#endif  // HWY_AVX3

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "core/refuse.h"
#include "qkv/target.h"
#include "simd/amx_tiles.h"
#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(round_to_floats);
HWY_EXPORT(round_to_rows);
HWY_EXPORT(round_to_tiles);
HWY_EXPORT(round_columns_to_floats);
HWY_EXPORT(round_columns_to_rows);
HWY_EXPORT(round_columns_to_tiles);
HWY_EXPORT(store_sums);
HWY_EXPORT(pack_strip);

#ifdef __x86_64__
void multiply_panel_by_tiles(const PanelProduct<float, BFloat16>& product) {
  const TileSession session;
  multiply_tiled_panel<Tiles>(product);
}
#endif

}  // namespace

void store_sums(const TiledSums& sums) { HWY_DYNAMIC_DISPATCH(store_sums)(sums); }

ReducedForm reduced_form(WeightStorage storage) {
  ensure_target();
  if (storage == WeightStorage::reduced_pairs) {
    if (!uses_bf16_pairs()) {
      refuse("matmul", "reduced_pairs needs the target avx512-bf16; the selected one is {}", selected_target());
    }
    return {panel_columns<float>(),
            2,
            1,
            2,
            1,
            HWY_DYNAMIC_DISPATCH(round_to_rows),
            HWY_DYNAMIC_DISPATCH(round_columns_to_rows),
            multiply_pairs_panel(),
            HWY_DYNAMIC_DISPATCH(pack_strip)};
  }
#ifdef __x86_64__
  if (uses_amx()) {
    return {static_cast<int>(kTiledColumns),
            2,
            static_cast<int>(kTiledSide),
            kTiledDepth,
            kTiledRows,
            HWY_DYNAMIC_DISPATCH(round_to_tiles),
            HWY_DYNAMIC_DISPATCH(round_columns_to_tiles),
            multiply_panel_by_tiles,
            HWY_DYNAMIC_DISPATCH(pack_strip)};
  }
#endif
  return {panel_columns<float>(),
          1,
          1,
          1,
          1,
          HWY_DYNAMIC_DISPATCH(round_to_floats),
          HWY_DYNAMIC_DISPATCH(round_columns_to_floats),
          multiply_reduced_panel(),
          nullptr};
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
