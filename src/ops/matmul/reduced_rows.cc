// Rounds to bf16: rows into floats, words of two neighbours along the depth, or tiles of words, and panels into words.
#include "ops/matmul/reduced_rows.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/reduced_rows.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/matmul/tiled_panel.h"
#include "simd/bf16_chains-inl.h"
#include "simd/bf16_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

void round_to_floats(const ReducedRows& rows) {
  const Tag<float> d;
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const float* x = rows.from + r * rows.row_step;
    float* to = rows.to + r * rows.filled;
    std::int64_t i = 0;
    for (; i + kLanes<float> <= rows.depth; i += kLanes<float>) {
      hn::StoreU(round_to_bf16(hn::LoadU(d, x + i)), d, to + i);
    }
    for (; i < rows.depth; ++i) to[i] = static_cast<float>(reduced_factor(x[i]));
    for (; i < rows.filled; ++i) to[i] = 0;
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
    round_row(rows.from + r * rows.row_step, rows.depth, rows.filled, kLanes<float>, rows.to + r * rows.filled / 2);
  }
}

void round_to_tiles(const ReducedRows& rows) {
  static_assert(kWordFloats == kTiledDepth);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    float* to = rows.to + r / kTiledSide * kTiledSide * rows.filled / 2 + r % kTiledSide * kTiledSide;
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

// So many rows of a column after those of another that the lines they are stored to stay.
void pack_along(const ReducedStrip& strip) {
  constexpr std::int64_t kRows = kWordFloats;
  float x[kRows] = {}, rounded[kRows / 2];
  auto* to = reinterpret_cast<float*>(strip.to);
  for (std::int64_t begin = 0; begin < strip.rows; begin += kRows) {
    const std::int64_t count = std::min(kRows, strip.rows - begin);
    for (std::int64_t c = 0; c < strip.columns; ++c) {
      const float* from = strip.from + begin * strip.row_step + c * strip.column_step;
      for (std::int64_t k = 0; k < count; ++k) x[k] = from[k * strip.row_step];
      if (count % 2 != 0) x[count] = 0;
      round_vector(x, rounded);
      for (std::int64_t i = 0; i < (count + 1) / 2; ++i) {
        std::memcpy(to + (begin / 2 + i) * strip.width + c, rounded + i, sizeof(float));
      }
    }
  }
}

void pack_strip(const ReducedStrip& strip) { strip.column_step == 1 ? pack_across(strip) : pack_along(strip); }

#else  // no CPU of these has words

void round_to_rows(const ReducedRows&) {}
void round_to_tiles(const ReducedRows&) {}
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
    return {panel_columns<float>(),          2, 2, 1, HWY_DYNAMIC_DISPATCH(round_to_rows), multiply_pairs_panel(),
            HWY_DYNAMIC_DISPATCH(pack_strip)};
  }
#ifdef __x86_64__
  if (uses_amx()) {
    return {static_cast<int>(kTiledColumns),
            2,
            kTiledDepth,
            kTiledRows,
            HWY_DYNAMIC_DISPATCH(round_to_tiles),
            multiply_panel_by_tiles,
            HWY_DYNAMIC_DISPATCH(pack_strip)};
  }
#endif
  return {panel_columns<float>(), 1, 1, 1, HWY_DYNAMIC_DISPATCH(round_to_floats), multiply_reduced_panel(), nullptr};
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
