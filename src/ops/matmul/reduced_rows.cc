// Rounds to bf16: rows into floats, or rows and panels into words of two neighbours along the depth.
#include "ops/matmul/reduced_rows.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/reduced_rows.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/bf16_chains-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

void round_to_floats(const float* x, std::int64_t depth, std::int64_t filled, float* to) {
  const Tag<float> d;
  std::int64_t i = 0;
  for (; i + kLanes<float> <= depth; i += kLanes<float>) hn::StoreU(round_to_bf16(hn::LoadU(d, x + i)), d, to + i);
  for (; i < depth; ++i) to[i] = static_cast<float>(reduced_factor(x[i]));
  for (; i < filled; ++i) to[i] = 0;
}

HWY_INLINE hn::Vec<hn::RebindToUnsigned<Tag<float>>> rounded_bits(Vec<float> x) {
  return hn::BitCast(hn::RebindToUnsigned<Tag<float>>(), round_to_bf16(x));
}

void round_to_words(const float* x, std::int64_t depth, std::int64_t filled, float* to) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> bits;
  const hn::Rebind<std::uint16_t, Tag<float>> halves;
  auto* words = reinterpret_cast<BFloat16*>(to);
  std::int64_t i = 0;
  for (; i + kLanes<float> <= depth; i += kLanes<float>) {
    const auto upper = hn::ShiftRight<16>(rounded_bits(hn::LoadU(d, x + i)));
    hn::StoreU(hn::DemoteTo(halves, hn::BitCast(bits, upper)), halves, reinterpret_cast<std::uint16_t*>(words + i));
  }
  for (; i < depth; ++i) words[i] = reduced_factor(x[i]);
  for (; i < filled; ++i) words[i] = BFloat16();
}

// Columns are neighbours: words of vectors of two rows.
void pack_across(const ReducedStrip& strip) {
  const Tag<float> d;
  const hn::RebindToUnsigned<Tag<float>> words;
  auto* to = reinterpret_cast<std::uint32_t*>(strip.to);
  for (std::int64_t k = 0; k < strip.rows; k += 2, to += strip.width) {
    const float* row = strip.from + k * strip.row_step;
    const bool is_last = k + 1 == strip.rows;
    for (std::int64_t c = 0; c < strip.columns; c += kLanes<float>) {
      const auto some = hn::FirstN(d, static_cast<std::size_t>(strip.columns - c));
      const auto first = hn::ShiftRight<16>(rounded_bits(hn::MaskedLoad(some, d, row + c)));
      const auto second = is_last ? hn::Zero(words) : rounded_bits(hn::MaskedLoad(some, d, row + strip.row_step + c));
      hn::StoreU(hn::Or(first, second), words, to + c);
    }
  }
}

// So many rows of a column after those of another that the lines they are stored to stay.
void pack_along(const ReducedStrip& strip) {
  constexpr std::int64_t kRows = 32;
  float x[kRows], rounded[kRows / 2];
  auto* to = reinterpret_cast<float*>(strip.to);
  for (std::int64_t begin = 0; begin < strip.rows; begin += kRows) {
    const std::int64_t count = std::min(kRows, strip.rows - begin);
    for (std::int64_t c = 0; c < strip.columns; ++c) {
      const float* from = strip.from + begin * strip.row_step + c * strip.column_step;
      for (std::int64_t k = 0; k < count; ++k) x[k] = from[k * strip.row_step];
      round_to_words(x, count, kRows, rounded);
      for (std::int64_t i = 0; i < (count + 1) / 2; ++i) {
        std::memcpy(to + (begin / 2 + i) * strip.width + c, rounded + i, sizeof(float));
      }
    }
  }
}

void pack_strip(const ReducedStrip& strip) { strip.column_step == 1 ? pack_across(strip) : pack_along(strip); }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "core/refuse.h"
#include "ops/matmul/tiled_panel.h"
#include "qkv/target.h"
#include "simd/amx_tiles.h"
#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(round_to_floats);
HWY_EXPORT(round_to_words);
HWY_EXPORT(pack_strip);

#ifdef __x86_64__
void multiply_panel_by_tiles(const PanelProduct<float, BFloat16>& product) {
  const TileSession session;
  multiply_tiled_panel<Tiles>(product);
}
#endif

}  // namespace

ReducedForm reduced_form(WeightStorage storage) {
  ensure_target();
  if (storage == WeightStorage::reduced_pairs) {
    if (!uses_bf16_pairs()) {
      refuse("matmul", "reduced_pairs needs the target avx512-bf16; the selected one is {}", selected_target());
    }
    return {panel_columns<float>(),          2, 2, 1, HWY_DYNAMIC_DISPATCH(round_to_words), multiply_pairs_panel(),
            HWY_DYNAMIC_DISPATCH(pack_strip)};
  }
#ifdef __x86_64__
  if (uses_amx()) {
    return {static_cast<int>(kTiledColumns),
            2,
            kTiledDepth,
            kTiledRows,
            HWY_DYNAMIC_DISPATCH(round_to_words),
            multiply_panel_by_tiles,
            HWY_DYNAMIC_DISPATCH(pack_strip)};
  }
#endif
  return {panel_columns<float>(), 1, 1, 1, HWY_DYNAMIC_DISPATCH(round_to_floats), multiply_reduced_panel(), nullptr};
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
