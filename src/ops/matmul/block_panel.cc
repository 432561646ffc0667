// Multiplies rows by the blocks of a panel, which it widens, compiled once per CPU target.
#include "ops/matmul/block_panel.h"

#include <algorithm>

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

// tile.operator()<kRows>(row) for tiles of the rows.
template <class Tile>
HWY_INLINE void for_each_tile(std::int64_t rows, const Tile& tile) {
  std::int64_t row = 0;
  const auto tiles_of = [&]<int kRows>() HWY_ATTR {
    for (; row + kRows <= rows; row += kRows) tile.template operator()<kRows>(row);
  };
  tiles_of.template operator()<kTileRows>();
  if constexpr (kTileRows > 4) tiles_of.template operator()<4>();
  tiles_of.template operator()<2>();
  tiles_of.template operator()<1>();
}

// Some rows times a panel's blocks.
template <class Form>
class BlockProduct {
 public:
  explicit BlockProduct(const BlockRows& rows) : rows_(rows) {}

  void widen(std::int64_t begin, std::int64_t count, float* to) const {
    const Tag<float> d;
    BlockPanel panel = rows_.panel;
    panel.numbers += begin / kBlockDepth * kNumbers;
    panel.scales += begin / kBlockDepth * kScales;
    for (std::int64_t block = 0; block < count; block += kBlockDepth, advance(panel)) {
      for_each_pair<Form>(panel, [&](std::int64_t k, const auto& first, const auto& second) HWY_ATTR {
        float* row = to + (block + k) * kTileColumns<float>;
        QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
          hn::Store(first[c], d, row + c * kLanes<float>);
          hn::Store(second[c], d, row + kTileColumns<float> + c * kLanes<float>);
        }
      });
    }
  }

  template <int kRows>
  HWY_INLINE void add(std::int64_t row, std::int64_t begin, const float* right, std::int64_t count,
                      Vec<float> (&sum)[kRows][kTileVectors]) const {
    multiply_tile<kRows, kTileVectors>(left(row) + begin, rows_.left_stride, 1, right, kTileColumns<float>, count, sum);
  }

  // The whole depth, widened in registers.
  template <int kRows>
  HWY_INLINE void add_widening(std::int64_t row, Vec<float> (&sum)[kRows][kTileVectors]) const {
    const auto add = [&](const float* numbers, const Vec<float>(&right)[kTileVectors]) HWY_ATTR {
      QKV_UNROLL for (int r = 0; r < kRows; ++r) {
        const Vec<float> element = hn::Set(Tag<float>(), numbers[r * rows_.left_stride]);
        QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = MultiplyAdd::apply(element, right[c], sum[r][c]);
      }
    };
    BlockPanel panel = rows_.panel;
    const float* numbers = left(row);
    for (std::int64_t begin = 0; begin < rows_.depth; begin += kBlockDepth, advance(panel)) {
      for_each_pair<Form>(panel, [&](std::int64_t k, const auto& first, const auto& second) HWY_ATTR {
        add(numbers + begin + k, first);
        add(numbers + begin + k + 1, second);
      });
    }
  }

  template <int kRows>
  HWY_INLINE void store(std::int64_t row, const Vec<float> (&sum)[kRows][kTileVectors]) const {
    const DepthBlock<float> block{.begin = 0, .count = rows_.depth, .add = rows_.accumulate, .bias = rows_.bias};
    float* out = rows_.out + row * rows_.out_stride;
    if (rows_.columns == kTileColumns<float>) {
      store_tile<kRows, kTileVectors>(sum, block, out, rows_.out_stride);
    } else {
      store_part_of_tile<kRows, kTileVectors>(sum, block, out, rows_.out_stride, rows_.columns);
    }
  }

 private:
  static constexpr std::int64_t kNumbers = Form::kBytes * kTileColumns<float>,
                                kScales = Form::kScales * kTileColumns<float>;  // of a block

  static HWY_INLINE void advance(BlockPanel& panel) {
    panel.numbers += kNumbers;
    panel.scales += kScales;
  }

  const float* left(std::int64_t row) const { return rows_.left + row * rows_.left_stride; }

  const BlockRows& rows_;
};

// Several tiles of rows: a stretch is widened once for all of them.
template <class Form>
void multiply_stretches(const BlockRows& rows, const BlockProduct<Form>& product) {
  const Tag<float> d;
  float *wide = rows.room, *waiting = wide + kStretchDepth * kTileColumns<float>;
  std::int64_t begin = 0;
  do {  // once for an empty depth
    const std::int64_t count = std::min(kStretchDepth, rows.depth - begin);
    product.widen(begin, count, wide);
    for_each_tile(rows.rows, [&]<int kRows>(std::int64_t row) HWY_ATTR {
      Vec<float> sum[kRows][kTileVectors];
      const auto each_sum = [&](const auto& use) HWY_ATTR {
        QKV_UNROLL for (int r = 0; r < kRows; ++r) {
          QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
            use(sum[r][c], waiting + (row + r) * kTileColumns<float> + c * kLanes<float>);
          }
        }
      };
      each_sum([&](Vec<float>& one, const float* from)
                   HWY_ATTR { one = begin == 0 ? hn::Zero(d) : hn::Load(d, from); });
      product.add(row, begin, wide, count, sum);
      if (begin + count == rows.depth) return product.store(row, sum);
      each_sum([&](const Vec<float>& one, float* to) HWY_ATTR { hn::Store(one, d, to); });
    });
    begin += count;
  } while (begin < rows.depth);
}

template <class Form>
void multiply_blocks(const BlockRows& rows) {
  const BlockProduct<Form> product(rows);
  if (rows.rows > kTileRows) return multiply_stretches(rows, product);
  for_each_tile(rows.rows, [&]<int kRows>(std::int64_t row) HWY_ATTR {
    Vec<float> sum[kRows][kTileVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = hn::Zero(Tag<float>());
    }
    product.add_widening(row, sum);
    product.store(row, sum);
  });
}

void multiply_q8(const BlockRows& rows) { multiply_blocks<WholeBytes>(rows); }
void multiply_q4(const BlockRows& rows) { multiply_blocks<HalfBytes>(rows); }
int tile_rows() { return kTileRows; }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(multiply_q8);
HWY_EXPORT(multiply_q4);
HWY_EXPORT(tile_rows);

}  // namespace

BlockKernel block_kernel(WeightStorage storage) {
  ensure_target();
  const std::int64_t rows = HWY_DYNAMIC_DISPATCH(tile_rows)();
  if (storage == WeightStorage::q8) return {HWY_DYNAMIC_DISPATCH(multiply_q8), rows, kBlockDepth, 1, 1};
  return {HWY_DYNAMIC_DISPATCH(multiply_q4), rows, kBlockDepth / 2, 2, 4};
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
