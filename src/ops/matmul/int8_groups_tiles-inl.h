// Products with int8 weights in groups by the tiles of AMX, 16 rows by 16 columns at a time. In place of the loops of
// int8_groups_panel.cc, whose rows, panels and bits they are: sums of a group are whole numbers. Included once per CPU
// target, of which only AVX-512 has tiles.

#if defined(QKV_OPS_MATMUL_INT8_GROUPS_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_OPS_MATMUL_INT8_GROUPS_TILES_INL_H_
#undef QKV_OPS_MATMUL_INT8_GROUPS_TILES_INL_H_
#else
#define QKV_OPS_MATMUL_INT8_GROUPS_TILES_INL_H_
#endif

#include "core/mathematics.h"
#include "ops/matmul/int8_groups-inl.h"
#include "ops/matmul/int8_store-inl.h"
#include "simd/amx_tiles.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

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

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_AVX3

#endif  // per-target include guard
