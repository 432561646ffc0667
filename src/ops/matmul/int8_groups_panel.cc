// The kernel of matmul for int8 weights in groups, compiled once per CPU target.
#include "ops/matmul/int8_groups_panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/int8_groups_panel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "core/mathematics.h"
#include "ops/matmul/int8_groups-inl.h"
#include "ops/matmul/int8_pairs-inl.h"
#include "ops/matmul/int8_store-inl.h"
#include "simd/amx_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// By the tiles of AMX, 16 rows by 16 columns at a time, in place of the loops below, whose rows, panels and bits they
// are: sums of a group are whole numbers. Of the targets only AVX-512 has tiles.
#if HWY_TARGET == HWY_AVX3

inline constexpr int kBlockRows = 16;

// The sums of each group in turn, of a block's first columns, of its next columns, of the next block. They are begun
// some groups before they are asked for, and stored one group after they are begun: tiles compute while vectors scale
// earlier sums, and neither waits for the other.
class GroupTiles {
 public:
  explicit GroupTiles(const Int8Product& product)
      : product_(product), groups_(product.rows / kBlockRows * column_vectors() * product.groups) {
    for (int i = 0; i < kAhead; ++i) begin_next();
  }

  // Of two registers for each operand, which take turns.
  static constexpr TileShapes kShapes{.row_bytes = {64, 64, kGroupDepth, kGroupDepth, 64, 64},
                                      .rows = {16, 16, kBlockRows, kBlockRows, kGroupDepth / 4, kGroupDepth / 4}};

  // [kBlockRows][kGroupStep].
  const std::int32_t* next() {
    begin_next();
    return slot(taken_++);
  }

 private:
  static constexpr int kAhead = 2, kSlots = 4;

  std::int64_t column_vectors() const { return divide_up(product_.columns, kGroupStep); }
  std::int32_t* slot(std::int64_t group) { return sums_[group % kSlots]; }

  void begin_next() {
    begun_ % 2 == 0 ? begin<0>() : begin<1>();
    ++begun_;
  }

  template <int kTurn>
  HWY_INLINE void begin() {
    constexpr int kLeft = 2 + kTurn, kRight = 4 + kTurn;
    if (begun_ < groups_) {
      load_tile<kLeft>(left_, product_.left_stride);
      load_tile<kRight>(right_, kGroupColumns * 4);
      clear_tile<kTurn>();
      multiply_byte_tiles<kTurn, kLeft, kRight>();
      advance();
    }
    if (begun_ > 0 && begun_ <= groups_) store_tile<1 - kTurn>(slot(begun_ - 1), kGroupStep);
  }

  void advance() {
    left_ += kGroupDepth;
    right_ += kGroupDepth * kGroupColumns;
    if (++group_ < product_.groups) return;
    group_ = 0;
    column_ += kGroupStep;
    if (column_ >= product_.columns) {
      column_ = 0;
      row_ += kBlockRows;
    }
    left_ = product_.left + row_ * product_.left_stride;
    right_ = product_.panel + column_ * 4;
  }

  HWY_ALIGN std::int32_t sums_[kSlots][kBlockRows * kGroupStep];
  const Int8Product& product_;
  std::int64_t groups_;  // in all
  std::int64_t begun_ = 0, taken_ = 0;
  std::int64_t row_ = 0, column_ = 0, group_ = 0;  // of the next to begin, and its operands
  const std::byte* left_ = product_.left;
  const std::int8_t* right_ = product_.panel;
};

HWY_INLINE void multiply_block(const Int8Product& product, std::int64_t row, std::int64_t column, GroupTiles& tiles) {
  const Tag<float> d;
  Vec<float> totals[kBlockRows];
  QKV_UNROLL for (int r = 0; r < kBlockRows; ++r) {
    totals[r] = hn::Zero(d);
    __builtin_prefetch(product.out + (row + r) * product.out_stride + column, 1);
  }
  const std::int64_t step = product.groups * kScalesOfGroup;
  const float* scales = product.scales + row * step;
  for (std::int64_t group = 0; group < product.groups; ++group, scales += kScalesOfGroup) {
    const GroupOfColumns columns(product, group, column);
    const std::int32_t* sums = tiles.next();
    QKV_UNROLL for (int r = 0; r < kBlockRows; ++r) {
      const Vec<float> products = hn::ConvertTo(d, hn::Load(Whole(), sums + r * kGroupStep));
      totals[r] = hn::Add(totals[r], columns.value(scales + r * step, products));
    }
  }
  QKV_UNROLL for (int r = 0; r < kBlockRows; ++r) store_values(product, row + r, column, totals[r]);
}

// The rows that fill blocks; returns how many.
inline HWY_NOINLINE std::int64_t multiply_blocks(const Int8Product& product) {
  const std::int64_t rows = product.rows / kBlockRows * kBlockRows;
  if (rows == 0) return 0;
  const TileSession session(GroupTiles::kShapes);
  GroupTiles tiles(product);
  for (std::int64_t row = 0; row < rows; row += kBlockRows) {
    for (std::int64_t column = 0; column < product.columns; column += kGroupStep) {
      multiply_block(product, row, column, tiles);
    }
  }
  return rows;
}

#endif  // HWY_AVX3

// A tile's results so far, [kRows][kGroupColumns].
template <int kRows>
using Totals = float[kRows * kGroupColumns];

// totals += values of the group.
template <int kRows>
HWY_INLINE void add_group(const Int8Product& product, std::int64_t row, std::int64_t group,
                          const Vec<float> (&sums)[kRows][kTileVectors], Totals<kRows>& totals) {
  const Tag<float> d;
  const float* scales = product.scales + (row * product.groups + group) * kScalesOfGroup;
  QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
    const GroupOfColumns columns(product, group, c * kGroupStep);
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      float* total = totals + r * kGroupColumns + c * kGroupStep;
      const Vec<float> value = columns.value(scales + r * product.groups * kScalesOfGroup, sums[r][c]);
      hn::Store(hn::Add(hn::Load(d, total), value), d, total);
    }
  }
}

#if QKV_BYTE_ROWS

// sum + four products of bytes, those of `left` without a sign, in each lane.
struct PairsOfProducts {
  static HWY_INLINE RawWhole add(RawWhole sum, RawWhole left, RawWhole right) { return add_pairs(sum, left, right); }
};

#if HWY_TARGET == HWY_AVX3
// By AVX512-VNNI, which not every CPU of this target has: _mm512_dpbusd_epi32 would want it in the whole function.
struct FourProducts {
  static HWY_INLINE RawWhole add(RawWhole sum, RawWhole left, RawWhole right) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right));
    return sum;
  }
};
#endif

template <int kRows, class Products>
HWY_NOINLINE void sum_groups(const Int8Product& product, std::int64_t row, Totals<kRows>& totals) {
  constexpr std::int64_t kSteps = 4;
  const Whole whole;
  const hn::Repartition<std::int8_t, Whole> bytes;
  const auto* HWY_RESTRICT left = reinterpret_cast<const std::uint8_t*>(product.left + row * product.left_stride);
  const std::int8_t* HWY_RESTRICT panel = product.panel;
  const std::int64_t stride = product.left_stride;
  for (std::int64_t group = 0; group < product.groups; ++group) {
    RawWhole sum[kRows][kTileVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = hn::Zero(whole).raw;
    }
    for (std::int64_t k = 0; k < kGroupDepth; k += kSteps, left += kSteps, panel += kSteps * kGroupColumns) {
      QKV_UNROLL for (int r = 0; r < kRows; ++r) {
        std::int32_t four;
        std::memcpy(&four, left + r * stride, sizeof(four));
        const RawWhole element = hn::Set(whole, four).raw;
        QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
          sum[r][c] = Products::add(sum[r][c], element, hn::LoadU(bytes, panel + c * kSteps * kGroupStep).raw);
        }
        // A row is finished before the next: GCC would begin them all, and run out of registers.
        asm volatile("" : "+v"(sum[r][0]), "+v"(sum[r][1]), "+v"(sum[r][2]));
      }
    }
    Vec<float> sums[kRows][kTileVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) {
        sums[r][c] = hn::ConvertTo(Tag<float>(), hn::Vec<Whole>{sum[r][c]});
      }
    }
    add_group<kRows>(product, row, group, sums, totals);
  }
}

template <int kRows>
HWY_INLINE void sum_any_groups(const Int8Product& product, bool four_products, std::int64_t row,
                               Totals<kRows>& totals) {
#if HWY_TARGET == HWY_AVX3
  if (four_products) return sum_groups<kRows, FourProducts>(product, row, totals);
#else
  static_cast<void>(four_products);
#endif
  sum_groups<kRows, PairsOfProducts>(product, row, totals);
}

#else

// By multiply-adds of floats, in which the sums of a group are exact.
template <int kRows>
HWY_NOINLINE void sum_any_groups(const Int8Product& product, bool, std::int64_t row, Totals<kRows>& totals) {
  const std::int64_t stride = product.left_stride / static_cast<std::int64_t>(sizeof(float));
  const float* left = reinterpret_cast<const float*>(product.left) + row * stride;
  for (std::int64_t group = 0; group < product.groups; ++group) {
    Vec<float> sum[kRows][kTileVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = hn::Zero(Tag<float>());
    }
    multiply_tile<kRows, kTileVectors>(left + group * kGroupDepth, stride, 1,
                                       product.panel + group * kGroupDepth * kGroupColumns, kGroupColumns, kGroupDepth,
                                       sum);
    add_group<kRows>(product, row, group, sum, totals);
  }
}

#endif

template <int kRows>
HWY_INLINE std::int64_t multiply_group_rows(const Int8Product& product, bool four_products, std::int64_t row) {
  for (; row + kRows <= product.rows; row += kRows) {
    HWY_ALIGN Totals<kRows> totals = {};
    sum_any_groups<kRows>(product, four_products, row, totals);
    for (int r = 0; r < kRows; ++r) {
      for (std::int64_t c = 0; c < product.columns; c += kGroupStep) {
        store_values(product, row + r, c, hn::Load(Tag<float>(), totals + r * kGroupColumns + c));
      }
    }
  }
  return row;
}

void multiply_groups(const Int8Product& product, bool four_products, [[maybe_unused]] bool tiles) {
  std::int64_t row = 0;
#if HWY_TARGET == HWY_AVX3
  if (tiles) row = multiply_blocks(product);
#endif
  row = multiply_group_rows<kTileRows>(product, four_products, row);
  row = multiply_group_rows<4>(product, four_products, row);
  row = multiply_group_rows<2>(product, four_products, row);
  multiply_group_rows<1>(product, four_products, row);
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(multiply_groups);

}  // namespace

void multiply_int8_groups_panel(const Int8Product& product) {
  const bool four_products = int8_rows() == Int8Rows::bytes_from_zero;  // where the CPU has them
  HWY_DYNAMIC_DISPATCH(multiply_groups)(product, four_products, uses_byte_tiles());
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
