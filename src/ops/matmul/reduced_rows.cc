// Rounds rows to bf16: into floats for vectors, into words of two neighbours for tiles.
#include "ops/matmul/reduced_rows.h"

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

void round_to_words(const float* x, std::int64_t depth, std::int64_t filled, float* to) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> bits;
  const hn::Rebind<std::uint16_t, Tag<float>> halves;
  auto* words = reinterpret_cast<BFloat16*>(to);
  std::int64_t i = 0;
  for (; i + kLanes<float> <= depth; i += kLanes<float>) {
    const auto upper =
        hn::ShiftRight<16>(hn::BitCast(hn::RebindToUnsigned<Tag<float>>(), round_to_bf16(hn::LoadU(d, x + i))));
    hn::StoreU(hn::DemoteTo(halves, hn::BitCast(bits, upper)), halves, reinterpret_cast<std::uint16_t*>(words + i));
  }
  for (; i < depth; ++i) words[i] = reduced_factor(x[i]);
  for (; i < filled; ++i) words[i] = BFloat16();
}

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
    return {panel_columns<float>(), 2, 2, 1, HWY_DYNAMIC_DISPATCH(round_to_words), multiply_pairs_panel()};
  }
#ifdef __x86_64__
  if (uses_amx()) {
    return {static_cast<int>(kTiledColumns), 2, kTiledDepth, kTiledRows, HWY_DYNAMIC_DISPATCH(round_to_words),
            multiply_panel_by_tiles};
  }
#endif
  return {panel_columns<float>(), 1, 1, 1, HWY_DYNAMIC_DISPATCH(round_to_floats), multiply_reduced_panel()};
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
