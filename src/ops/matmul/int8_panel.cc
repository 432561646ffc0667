// The int8 kernel of matmul, compiled once per CPU target.
#include "ops/matmul/int8_panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/int8_panel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "ops/matmul/int8_store-inl.h"
#include "simd/amx_tiles.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

inline constexpr int kColumns = kTileColumns<float>;
inline constexpr int kStep = kLanes<float>;

#if HWY_TARGET == HWY_AVX3

// sums [kRows][kColumns] of one tile; `groups` of four steps.
template <int kRows>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) void sum_bytes(
    const std::uint8_t* left, std::int64_t stride, const std::int8_t* panel, std::int64_t groups, std::int32_t* sums) {
  __m512i sum[kRows][kTileVectors];
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = _mm512_setzero_si512();
  }
  for (std::int64_t g = 0; g < groups; ++g, panel += 4 * kColumns) {
    __m512i row[kTileVectors];
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) row[c] = _mm512_loadu_si512(panel + 64 * c);
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      std::int32_t four;
      std::memcpy(&four, left + r * stride + 4 * g, 4);
      const __m512i element = _mm512_set1_epi32(four);
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = _mm512_dpbusd_epi32(sum[r][c], element, row[c]);
    }
  }
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) { _mm512_storeu_si512(sums + r * kColumns + 16 * c, sum[r][c]); }
  }
}

// The same of kBlockRows rows by the tiles of AMX, in a session of whole tiles.
inline constexpr int kBlockRows = 16;
inline constexpr std::int64_t kTileDepth = 64;

void sum_block(const std::uint8_t* left, std::int64_t stride, const std::int8_t* panel, std::int64_t depth,
               std::int32_t* sums) {
  clear_tile<0>();
  clear_tile<1>();
  clear_tile<2>();
  for (std::int64_t k = 0; k < depth; k += kTileDepth, left += kTileDepth, panel += kTileDepth * kColumns) {
    load_tile<3>(left, stride);
    load_tile<4>(panel, 4 * kColumns);
    load_tile<5>(panel + 4 * kStep, 4 * kColumns);
    load_tile<6>(panel + 8 * kStep, 4 * kColumns);
    multiply_byte_tiles<0, 3, 4>();
    multiply_byte_tiles<1, 3, 5>();
    multiply_byte_tiles<2, 3, 6>();
  }
  store_tile<0>(sums, kColumns);
  store_tile<1>(sums + kStep, kColumns);
  store_tile<2>(sums + 2 * kStep, kColumns);
}

#endif

// The same by multiply-adds of floats: products of whole numbers up to 127 sum up exactly for 1,040 steps.
inline constexpr std::int64_t kExactSteps = 1024;

// The even number of steps of one row, with sums of their own for the odd ones: three sums alone would wait for each
// other. Returns how many. Whole numbers add up to the same in any order.
HWY_INLINE std::int64_t multiply_pairs(const float* HWY_RESTRICT left, const std::int8_t* HWY_RESTRICT panel,
                                       std::int64_t steps, Vec<float> (&sum)[kTileVectors]) {
  const Tag<float> d;
  Vec<float> even[kTileVectors], odd[kTileVectors];
  QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) even[c] = odd[c] = hn::Zero(d);
  for (std::int64_t k = 0; k + 2 <= steps; k += 2, panel += 2 * kColumns) {
    const Vec<float> first = hn::Set(d, left[k]), second = hn::Set(d, left[k + 1]);
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
      even[c] = hn::MulAdd(first, load_right(d, panel + c * kStep), even[c]);
      odd[c] = hn::MulAdd(second, load_right(d, panel + kColumns + c * kStep), odd[c]);
    }
  }
  QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[c] = hn::Add(even[c], odd[c]);
  return steps / 2 * 2;
}

template <int kRows>
HWY_NOINLINE void sum_floats(const float* left, std::int64_t stride, const std::int8_t* panel, std::int64_t depth,
                             std::int32_t* sums) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> whole;
  for (std::int64_t begin = 0; begin == 0 || begin < depth; begin += kExactSteps) {
    Vec<float> sum[kRows][kTileVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = hn::Zero(d);
    }
    const std::int64_t steps = depth - begin < kExactSteps ? depth - begin : kExactSteps;
    std::int64_t done = begin;
    if constexpr (kRows == 1) done += multiply_pairs(left + begin, panel + begin * kColumns, steps, sum[0]);
    multiply_tile<kRows, kTileVectors>(left + done, stride, 1, panel + done * kColumns, kColumns, begin + steps - done,
                                       sum);
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
        std::int32_t* to = sums + r * kColumns + c * kStep;
        const auto part = hn::ConvertTo(whole, sum[r][c]);
        hn::StoreU(begin == 0 ? part : hn::Add(hn::LoadU(whole, to), part), whole, to);
      }
    }
  }
}

template <int kRows>
HWY_INLINE void sum_tile(const Int8Product& product, bool bytes, std::int64_t row, std::int32_t* sums) {
#if HWY_TARGET == HWY_AVX3
  if (bytes) {
    return sum_bytes<kRows>(reinterpret_cast<const std::uint8_t*>(product.left + row * product.left_stride),
                            product.left_stride, product.panel, (product.depth + 3) / 4, sums);
  }
#else
  static_cast<void>(bytes);
#endif
  sum_floats<kRows>(reinterpret_cast<const float*>(product.left + row * product.left_stride),
                    product.left_stride / static_cast<std::int64_t>(sizeof(float)), product.panel, product.depth, sums);
}

// sums -= zero * column_sums; out (+)= scale * column_scales * sums (+ bias).
void scale_row(const Int8Product& product, std::int32_t zero, std::int64_t row, const std::int32_t* sums) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> whole;
  const float row_scale = product.scales[row];
  std::int64_t c = 0;
  for (; c + kStep <= product.columns; c += kStep) {
    const auto exact =
        hn::Sub(hn::LoadU(whole, sums + c), hn::Mul(hn::LoadU(whole, product.column_sums + c), hn::Set(whole, zero)));
    const Vec<float> scale = hn::Mul(hn::Set(d, row_scale), hn::LoadU(d, product.column_scales + c));
    store_values(product, row, c, hn::Mul(hn::ConvertTo(d, exact), scale));
  }
  if (c == product.columns) return;
  HWY_ALIGN float rest[kStep] = {};
  for (std::int64_t i = c; i < product.columns; ++i) {
    const std::int32_t exact = sums[i] - product.column_sums[i] * zero;
    rest[i - c] = static_cast<float>(exact) * (row_scale * product.column_scales[i]);
  }
  store_values(product, row, c, hn::Load(d, rest));
}

template <int kRows>
HWY_INLINE std::int64_t multiply_rows(const Int8Product& product, bool bytes, std::int64_t row) {
  HWY_ALIGN std::int32_t sums[kRows * kColumns];
  for (; row + kRows <= product.rows; row += kRows) {
    sum_tile<kRows>(product, bytes, row, sums);
    for (int r = 0; r < kRows; ++r) scale_row(product, bytes ? kByteZero : 0, row + r, sums + r * kColumns);
  }
  return row;
}

#if HWY_TARGET == HWY_AVX3

// The rows that fill blocks, of depths that fill tiles; returns how many.
std::int64_t multiply_blocks_of_rows(const Int8Product& product) {
  if (product.rows < kBlockRows || product.depth % kTileDepth != 0) return 0;
  const TileSession session;
  HWY_ALIGN std::int32_t sums[kBlockRows * kColumns];
  std::int64_t row = 0;
  for (; row + kBlockRows <= product.rows; row += kBlockRows) {
    sum_block(reinterpret_cast<const std::uint8_t*>(product.left + row * product.left_stride), product.left_stride,
              product.panel, product.depth, sums);
    for (int r = 0; r < kBlockRows; ++r) scale_row(product, kByteZero, row + r, sums + r * kColumns);
  }
  return row;
}

#endif

void multiply_int8(const Int8Product& product, bool bytes, [[maybe_unused]] bool tiles) {
  std::int64_t row = 0;
#if HWY_TARGET == HWY_AVX3
  if (tiles) row = multiply_blocks_of_rows(product);
#endif
  row = multiply_rows<kTileRows>(product, bytes, row);
  row = multiply_rows<4>(product, bytes, row);
  row = multiply_rows<2>(product, bytes, row);
  multiply_rows<1>(product, bytes, row);
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(multiply_int8);

}  // namespace

void multiply_int8_panel(const Int8Product& product) {
  const bool bytes = int8_group() == 4;
  HWY_DYNAMIC_DISPATCH(multiply_int8)(product, bytes, bytes && uses_byte_tiles());
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
