// Widens the blocks of a panel, and multiplies one row by them, compiled once per CPU target.
#include "ops/matmul/block_panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/block_panel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/matmul/store_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

HWY_INLINE Vec<float> widen_half(const Float16* from) {
  const hn::Rebind<hwy::float16_t, Tag<float>> half;
  return hn::PromoteTo(Tag<float>(), hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
}

using Words = hn::RebindToSigned<Tag<float>>;

// Widens a block of some columns, two rows at a time.
struct WholeBytes {
  static constexpr std::int64_t kBytes = kBlockDepth, kScales = 1;

  HWY_INLINE explicit WholeBytes(const Float16* scales) : scale(widen_half(scales)) {}

  HWY_INLINE void rows(const std::uint8_t* pair, Vec<float>& first, Vec<float>& second) const {
    const auto* from = reinterpret_cast<const std::int8_t*>(pair);
    first = hn::Mul(scale, load_right(Tag<float>(), from));
    second = hn::Mul(scale, load_right(Tag<float>(), from + kTileColumns<float>));
  }

  Vec<float> scale;
};

struct HalfBytes {
  static constexpr std::int64_t kBytes = kBlockDepth / 2, kScales = 2;

  HWY_INLINE explicit HalfBytes(const Float16* scales)
      : scale(widen_half(scales)), least(widen_half(scales + kTileColumns<float>)) {}

  // The product is exact: a sum rounds once, fused or not.
  HWY_INLINE void rows(const std::uint8_t* pair, Vec<float>& first, Vec<float>& second) const {
    const Tag<float> d;
    const hn::Rebind<std::uint8_t, Words> bytes;
    const auto both = hn::PromoteTo(Words(), hn::LoadU(bytes, pair));
    first = hn::MulAdd(scale, hn::ConvertTo(d, hn::And(both, hn::Set(Words(), 15))), least);
    second = hn::MulAdd(scale, hn::ConvertTo(d, hn::ShiftRight<4>(both)), least);
  }

  Vec<float> scale, least;
};

// use(k, first, second): rows k and k + 1 of the panel's next block, vector by vector of its columns.
template <class Form, class Use>
HWY_INLINE void for_each_pair(const BlockPanel& panel, const Use& use) {
  constexpr std::int64_t kPairBytes = Form::kBytes * kTileColumns<float> / (kBlockDepth / 2);
  const Form forms[kTileVectors] = {Form(panel.scales), Form(panel.scales + kLanes<float>),
                                    Form(panel.scales + 2 * kLanes<float>)};
  static_assert(kTileVectors == 3);
  for (std::int64_t k = 0; k < kBlockDepth; k += 2) {
    const std::uint8_t* pair = panel.numbers + k / 2 * kPairBytes;
    Vec<float> first[kTileVectors], second[kTileVectors];
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) forms[c].rows(pair + c * kLanes<float>, first[c], second[c]);
    use(k, first, second);
  }
}

template <class Form>
HWY_INLINE void advance(BlockPanel& panel) {
  panel.numbers += Form::kBytes * kTileColumns<float>;
  panel.scales += Form::kScales * kTileColumns<float>;
}

template <class Form>
void widen_blocks(const BlockPanel& from, std::int64_t depth, float* to) {
  const Tag<float> d;
  BlockPanel panel = from;
  for (std::int64_t begin = 0; begin < depth; begin += kBlockDepth, advance<Form>(panel)) {
    for_each_pair<Form>(panel, [&](std::int64_t k, const auto& first, const auto& second) HWY_ATTR {
      float* row = to + (begin + k) * kTileColumns<float>;
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
        hn::Store(first[c], d, row + c * kLanes<float>);
        hn::Store(second[c], d, row + kTileColumns<float> + c * kLanes<float>);
      }
    });
  }
}

template <class Form>
void multiply_blocks(const BlockRow& row) {
  const Tag<float> d;
  Vec<float> sum[1][kTileVectors];
  QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[0][c] = hn::Zero(d);
  BlockPanel panel = row.panel;
  for (std::int64_t begin = 0; begin < row.depth; begin += kBlockDepth, advance<Form>(panel)) {
    for_each_pair<Form>(panel, [&](std::int64_t k, const auto& first, const auto& second) HWY_ATTR {
      const Vec<float> left = hn::Set(d, row.left[begin + k]), next = hn::Set(d, row.left[begin + k + 1]);
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[0][c] = MultiplyAdd::apply(left, first[c], sum[0][c]);
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[0][c] = MultiplyAdd::apply(next, second[c], sum[0][c]);
    });
  }
  const DepthBlock<float> block{.begin = 0, .count = row.depth, .add = row.accumulate, .bias = row.bias};
  if (row.columns == kTileColumns<float>) {
    store_tile<1, kTileVectors>(sum, block, row.out, 0);
  } else {
    store_part_of_tile<1, kTileVectors>(sum, block, row.out, 0, row.columns);
  }
}

void widen_q8(const BlockPanel& panel, std::int64_t depth, float* to) { widen_blocks<WholeBytes>(panel, depth, to); }
void widen_q4(const BlockPanel& panel, std::int64_t depth, float* to) { widen_blocks<HalfBytes>(panel, depth, to); }
void multiply_q8(const BlockRow& row) { multiply_blocks<WholeBytes>(row); }
void multiply_q4(const BlockRow& row) { multiply_blocks<HalfBytes>(row); }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(widen_q8);
HWY_EXPORT(widen_q4);
HWY_EXPORT(multiply_q8);
HWY_EXPORT(multiply_q4);

}  // namespace

BlockKernel block_kernel(WeightStorage storage) {
  ensure_target();
  if (storage == WeightStorage::q8) {
    return {HWY_DYNAMIC_DISPATCH(widen_q8), HWY_DYNAMIC_DISPATCH(multiply_q8), kBlockDepth, 1};
  }
  return {HWY_DYNAMIC_DISPATCH(widen_q4), HWY_DYNAMIC_DISPATCH(multiply_q4), kBlockDepth / 2, 2};
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
