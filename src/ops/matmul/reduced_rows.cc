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

void round_to_floats(const float* x, std::int64_t depth, float* to) {
  const Tag<float> d;
  std::int64_t i = 0;
  for (; i + kLanes<float> <= depth; i += kLanes<float>) hn::StoreU(round_to_bf16(hn::LoadU(d, x + i)), d, to + i);
  for (; i < depth; ++i) to[i] = static_cast<float>(reduced_factor(x[i]));
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>

#include "core/mathematics.h"
#include "ops/matmul/matmul_panel.h"
#include "ops/matmul/tiled_panel.h"
#include "simd/amx_tiles.h"
#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(round_to_floats);

std::int64_t depth_of_tiles(std::int64_t depth) { return divide_up(depth, kTiledDepth) * kTiledDepth; }

}  // namespace

bool reduced_by_tiles() {
  ensure_target();
  return uses_amx();
}

int reduced_columns() { return reduced_by_tiles() ? static_cast<int>(kTiledColumns) : panel_columns<float>(); }

std::int64_t reduced_depth(std::int64_t depth) { return reduced_by_tiles() ? depth_of_tiles(depth) : depth; }

std::int64_t reduced_words(std::int64_t depth) { return reduced_by_tiles() ? depth_of_tiles(depth) / 2 : depth; }

std::int64_t reduced_rows(std::int64_t rows) {
  return reduced_by_tiles() ? divide_up(rows, kTiledRows) * kTiledRows : rows;
}

void round_row(const float* x, std::int64_t depth, float* to) {
  if (!reduced_by_tiles()) return HWY_DYNAMIC_DISPATCH(round_to_floats)(x, depth, to);
  auto* words = reinterpret_cast<BFloat16*>(to);
  std::transform(x, x + depth, words, reduced_factor);
  std::fill(words + depth, words + depth_of_tiles(depth), BFloat16());
}

void multiply_panel_by_tiles([[maybe_unused]] const PanelProduct<float, BFloat16>& product) {
#ifdef __x86_64__
  const TileSession session;
  multiply_tiled_panel<Tiles>(product);
#endif
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
