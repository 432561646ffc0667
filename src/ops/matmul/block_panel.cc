// Widens the blocks of a panel, and multiplies rows by them, compiled once per CPU target.
#include "ops/matmul/block_panel.h"

#include "ops/matmul/matmul_panel.h"

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

// Numbers of 4 bits, the lowest of each word, as floats.
HWY_INLINE Vec<float> half_bytes(hn::Vec<Words> words) {
#if HWY_TARGET == HWY_AVX3
  // An index of a table of 16 is 4 bits of a word, whatever the others are.
  const __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return Vec<float>{_mm512_permutexvar_ps(words.raw, numbers)};
#else
  return hn::ConvertTo(Tag<float>(), hn::And(words, hn::Set(Words(), 15)));
#endif
}

// A block of a vector of columns: two neighbouring rows of each eight are widened at a time.
inline constexpr std::int64_t kEight = 8;

struct WholeBytes {
  static constexpr std::int64_t kBytes = kBlockDepth, kScales = 1;

  HWY_INLINE explicit WholeBytes(const Float16* scales) : scale(widen_half(scales)) {}

  HWY_INLINE void rows(const std::uint8_t* eight, std::int64_t pair, std::int64_t column, Vec<float>& first,
                       Vec<float>& second) const {
    const auto* from = reinterpret_cast<const std::int8_t*>(eight) + 2 * pair * kTileColumns<float> + column;
    first = hn::Mul(scale, load_right(Tag<float>(), from));
    second = hn::Mul(scale, load_right(Tag<float>(), from + kTileColumns<float>));
  }

  Vec<float> scale;
};

// A column has the numbers of eight rows in a word, which is read from each of its bytes on.
struct HalfBytes {
  static constexpr std::int64_t kBytes = kBlockDepth / 2, kScales = 2;

  HWY_INLINE explicit HalfBytes(const Float16* scales)
      : scale(widen_half(scales)), least(widen_half(scales + kTileColumns<float>)) {}

  // The product is exact: a sum rounds once, fused or not.
  HWY_INLINE void rows(const std::uint8_t* eight, std::int64_t pair, std::int64_t column, Vec<float>& first,
                       Vec<float>& second) const {
    const auto words = hn::LoadU(Words(), reinterpret_cast<const std::int32_t*>(eight + 4 * column + pair));
    first = hn::MulAdd(scale, half_bytes(words), least);
    second = hn::MulAdd(scale, half_bytes(hn::ShiftRight<4>(words)), least);
  }

  Vec<float> scale, least;
};

// use(k, first, second): rows k and k + 1 of the panel's next block, vector by vector of its columns.
template <class Form, class Use>
HWY_INLINE void for_each_pair(const BlockPanel& panel, const Use& use) {
  constexpr std::int64_t kEightBytes = Form::kBytes * kTileColumns<float> / (kBlockDepth / kEight);
  const Form forms[kTileVectors] = {Form(panel.scales), Form(panel.scales + kLanes<float>),
                                    Form(panel.scales + 2 * kLanes<float>)};
  static_assert(kTileVectors == 3);
  prefetch_ahead(panel.scales, Form::kScales * kTileColumns<float>, kAheadBytes * Form::kScales / Form::kBytes);
  for (std::int64_t k = 0; k < kBlockDepth; k += kEight) {
    const std::uint8_t* eight = panel.numbers + k / kEight * kEightBytes;
    prefetch_ahead(eight, kEightBytes);
    QKV_UNROLL for (std::int64_t pair = 0; pair < kEight / 2; ++pair) {
      Vec<float> first[kTileVectors], second[kTileVectors];
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
        forms[c].rows(eight, pair, c * kLanes<float>, first[c], second[c]);
      }
      use(k + 2 * pair, first, second);
    }
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

// Tiles of kRows from `row` on while they fit; returns the row behind them.
template <class Form, int kRows>
HWY_INLINE std::int64_t multiply_tiles(const BlockRows& rows, std::int64_t row) {
  const Tag<float> d;
  for (; row + kRows <= rows.rows; row += kRows) {
    Vec<float> sum[kRows][kTileVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = hn::Zero(d);
    }
    const float* left = rows.left + row * rows.left_stride;
    const auto add = [&](const float* numbers, const Vec<float>(&right)[kTileVectors]) HWY_ATTR {
      QKV_UNROLL for (int r = 0; r < kRows; ++r) {
        const Vec<float> element = hn::Set(d, numbers[r * rows.left_stride]);
        QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = MultiplyAdd::apply(element, right[c], sum[r][c]);
      }
    };
    BlockPanel panel = rows.panel;
    for (std::int64_t begin = 0; begin < rows.depth; begin += kBlockDepth, advance<Form>(panel)) {
      for_each_pair<Form>(panel, [&](std::int64_t k, const auto& first, const auto& second) HWY_ATTR {
        add(left + begin + k, first);
        add(left + begin + k + 1, second);
      });
    }
    const DepthBlock<float> block{.begin = 0, .count = rows.depth, .add = rows.accumulate, .bias = rows.bias};
    float* out = rows.out + row * rows.out_stride;
    if (rows.columns == kTileColumns<float>) {
      store_tile<kRows, kTileVectors>(sum, block, out, rows.out_stride);
    } else {
      store_part_of_tile<kRows, kTileVectors>(sum, block, out, rows.out_stride, rows.columns);
    }
  }
  return row;
}

template <class Form>
void multiply_blocks(const BlockRows& rows) {
  std::int64_t row = multiply_tiles<Form, kTileRows>(rows, 0);
  row = multiply_tiles<Form, 4>(rows, row);
  row = multiply_tiles<Form, 2>(rows, row);
  multiply_tiles<Form, 1>(rows, row);
}

void widen_q8(const BlockPanel& panel, std::int64_t depth, float* to) { widen_blocks<WholeBytes>(panel, depth, to); }
void widen_q4(const BlockPanel& panel, std::int64_t depth, float* to) { widen_blocks<HalfBytes>(panel, depth, to); }
void multiply_q8(const BlockRows& rows) { multiply_blocks<WholeBytes>(rows); }
void multiply_q4(const BlockRows& rows) { multiply_blocks<HalfBytes>(rows); }
int most_rows() { return 2 * kTileRows; }

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
HWY_EXPORT(most_rows);

}  // namespace

BlockKernel block_kernel(WeightStorage storage) {
  ensure_target();
  const std::int64_t rows = HWY_DYNAMIC_DISPATCH(most_rows)();
  if (storage == WeightStorage::q8) {
    return {HWY_DYNAMIC_DISPATCH(widen_q8), HWY_DYNAMIC_DISPATCH(multiply_q8), rows, kBlockDepth, 1, 1};
  }
  return {HWY_DYNAMIC_DISPATCH(widen_q4), HWY_DYNAMIC_DISPATCH(multiply_q4), rows, kBlockDepth / 2, 2, 4};
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
