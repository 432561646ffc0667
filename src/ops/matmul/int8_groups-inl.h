// What the kernels of matmul for int8 weights in groups share. Included once per CPU target.

#if defined(QKV_OPS_MATMUL_INT8_GROUPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_OPS_MATMUL_INT8_GROUPS_INL_H_
#undef QKV_OPS_MATMUL_INT8_GROUPS_INL_H_
#else
#define QKV_OPS_MATMUL_INT8_GROUPS_INL_H_
#endif

#include "ops/matmul/int8_groups_panel.h"
#include "simd/tile-inl.h"

// Whether rows are bytes, and panels hold four steps together; else rows are floats, less what stands for 0.
#undef QKV_BYTE_ROWS
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
#define QKV_BYTE_ROWS 1
#else
#define QKV_BYTE_ROWS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

inline constexpr int kGroupColumns = kTileColumns<float>;
inline constexpr int kGroupStep = kLanes<float>;
using Whole = hn::RebindToSigned<Tag<float>>;

// A vector of columns of one group.
struct GroupOfColumns {
  GroupOfColumns(const Int8Product& product, std::int64_t group, std::int64_t column)
      : scales(hn::LoadU(Tag<float>(), product.column_scales + group * kGroupColumns + column)),
        sums(hn::ConvertTo(Tag<float>(), hn::LoadU(Whole(), product.column_sums + group * kGroupColumns + column))) {}

  // scale of the row * scales * (sum of the products - what stands for 0 in the row * sums).
  HWY_INLINE Vec<float> value(const float* scales_of_row, Vec<float> products) const {
    const Tag<float> d;
#if QKV_BYTE_ROWS
    products = hn::NegMulAdd(hn::Set(d, scales_of_row[1]), sums, products);  // all exact
#endif
    return hn::Mul(products, hn::Mul(hn::Set(d, scales_of_row[0]), scales));
  }

  Vec<float> scales, sums;
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
