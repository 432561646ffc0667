// The int8 kernel of matmul, compiled once per CPU target.
#include "ops/matmul/int8_panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/int8_panel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "ops/matmul/int8_pairs-inl.h"
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

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4

#if HWY_TARGET == HWY_AVX2
HWY_INLINE RawWhole magnitudes(RawWhole x) { return _mm256_abs_epi8(x); }
HWY_INLINE RawWhole with_signs(RawWhole x, RawWhole signs) { return _mm256_sign_epi8(x, signs); }
#else
HWY_INLINE RawWhole magnitudes(RawWhole x) { return _mm_abs_epi8(x); }
HWY_INLINE RawWhole with_signs(RawWhole x, RawWhole signs) { return _mm_sign_epi8(x, signs); }
#endif

// The same of rows with signs, which the weights take over: two products of up to 127 * 127 fit in 16 bits.
template <int kRows>
HWY_NOINLINE void sum_bytes(const std::int8_t* HWY_RESTRICT left, std::int64_t stride,
                            const std::int8_t* HWY_RESTRICT panel, std::int64_t groups, std::int32_t* sums) {
  const hn::RebindToSigned<Tag<float>> whole;
  const hn::Repartition<std::int8_t, decltype(whole)> bytes;
  RawWhole sum[kRows][kTileVectors];
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = hn::Zero(whole).raw;
  }
  for (std::int64_t g = 0; g < groups; ++g, left += 4, panel += 4 * kColumns) {
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      std::int32_t four;
      std::memcpy(&four, left + r * stride, sizeof(four));
      const RawWhole element = hn::Set(whole, four).raw, magnitude = magnitudes(element);
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
        const RawWhole weights = hn::LoadU(bytes, panel + c * 4 * kStep).raw;
        sum[r][c] = add_pairs(sum[r][c], magnitude, with_signs(weights, element));
      }
      // A row is finished before the next: GCC would begin them all, and run out of registers.
      asm volatile("" : "+v"(sum[r][0]), "+v"(sum[r][1]), "+v"(sum[r][2]));
    }
  }
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
      hn::StoreU(hn::Vec<decltype(whole)>{sum[r][c]}, whole, sums + r * kColumns + c * kStep);
    }
  }
}

#else

// The same by multiply-adds of floats: products of whole numbers up to 127 sum up exactly for 1,040 steps.
inline constexpr std::int64_t kExactSteps = 1024;

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
    multiply_tile<kRows, kTileVectors>(left + begin, stride, 1, panel + begin * kColumns, kColumns, steps, sum);
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
        std::int32_t* to = sums + r * kColumns + c * kStep;
        const auto part = hn::ConvertTo(whole, sum[r][c]);
        hn::StoreU(begin == 0 ? part : hn::Add(hn::LoadU(whole, to), part), whole, to);
      }
    }
  }
}

#endif

template <int kRows>
HWY_INLINE void sum_tile(const Int8Product& product, [[maybe_unused]] Int8Rows rows, std::int64_t row,
                         std::int32_t* sums) {
  const std::byte* left = product.left + row * product.left_stride;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
  sum_bytes<kRows>(reinterpret_cast<const std::int8_t*>(left), product.left_stride, product.panel,
                   (product.depth + 3) / 4, sums);
#else
#if HWY_TARGET == HWY_AVX3
  if (rows == Int8Rows::bytes_from_zero) {
    return sum_bytes<kRows>(reinterpret_cast<const std::uint8_t*>(left), product.left_stride, product.panel,
                            (product.depth + 3) / 4, sums);
  }
#endif
  sum_floats<kRows>(reinterpret_cast<const float*>(left),
                    product.left_stride / static_cast<std::int64_t>(sizeof(float)), product.panel, product.depth, sums);
#endif
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
HWY_INLINE std::int64_t multiply_rows(const Int8Product& product, Int8Rows rows, std::int64_t row) {
  HWY_ALIGN std::int32_t sums[kRows * kColumns];
  const std::int32_t zero = rows == Int8Rows::bytes_from_zero ? kByteZero : 0;
  for (; row + kRows <= product.rows; row += kRows) {
    sum_tile<kRows>(product, rows, row, sums);
    for (int r = 0; r < kRows; ++r) scale_row(product, zero, row + r, sums + r * kColumns);
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

void multiply_int8(const Int8Product& product, Int8Rows rows, [[maybe_unused]] bool tiles) {
  std::int64_t row = 0;
#if HWY_TARGET == HWY_AVX3
  if (tiles) row = multiply_blocks_of_rows(product);
#endif
  row = multiply_rows<kTileRows>(product, rows, row);
  row = multiply_rows<4>(product, rows, row);
  row = multiply_rows<2>(product, rows, row);
  multiply_rows<1>(product, rows, row);
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
  HWY_DYNAMIC_DISPATCH(multiply_int8)(product, int8_rows(), uses_byte_tiles());
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
