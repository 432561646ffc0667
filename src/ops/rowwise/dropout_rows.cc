// Vectors run over the counters of a row: one for each eight neighbouring elements.
#include <array>

#include "ops/rowwise/row_kernels.h"
#include "qkv/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rowwise/dropout_rows.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Counters, and so groups of eight elements, that are drawn together.
inline constexpr std::int64_t kDrawn = kLanes<std::uint64_t>;

// words [8 * kDrawn]: the random bits of the elements from 8 * block on.
HWY_INLINE void draw(std::uint64_t seed, std::int64_t row, std::int64_t block, std::uint16_t* words) {
#if HWY_TARGET == HWY_SCALAR
  const auto numbers =
      philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(row), 0, 0}, seed, DropoutRule::kRounds);
  for (int i = 0; i < 8; ++i) words[i] = static_cast<std::uint16_t>(numbers[i / 2] >> (16 * (i % 2)));
#else
  const PhiloxCounters::D d;
  PhiloxCounters random(hn::Iota(d, static_cast<std::uint64_t>(block)), hn::Set(d, static_cast<std::uint64_t>(row)),
                        hn::Zero(d), hn::Zero(d));
  random.run<DropoutRule::kRounds>(seed);
  const auto low = hn::Set(d, 0xFFFFFFFFu);
  const auto pair = [&](int n) HWY_ATTR {
    return hn::Or(hn::And(random.bits(n), low), hn::ShiftLeft<32>(random.bits(n + 1)));
  };
  // Eight words of one counter, then those of the next: little-endian numbers side by side.
  hn::StoreInterleaved2(pair(0), pair(2), d, reinterpret_cast<std::uint64_t*>(words));
#endif
}

// out[i] = x[i] * factor where words[i] is below the threshold.
template <class T>
HWY_INLINE void keep(const DropoutRule& rule, const std::uint16_t* words, const T* x, T* out, std::int64_t count) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const Tag<float> d;
    const hn::RebindToSigned<Tag<float>> wide;
    const hn::Rebind<std::uint16_t, Tag<float>> narrow;
    const auto threshold = hn::Set(wide, static_cast<std::int32_t>(rule.threshold));
    for (; i + kLanes<float> <= count; i += kLanes<float>) {
      const auto kept = hn::Lt(hn::PromoteTo(wide, hn::LoadU(narrow, words + i)), threshold);
      const auto scaled = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, static_cast<float>(rule.factor)));
      hn::StoreU(hn::IfThenElseZero(hn::RebindMask(d, kept), scaled), d, out + i);
    }
  }
#endif
  for (; i < count; ++i) out[i] = words[i] < rule.threshold ? x[i] * static_cast<T>(rule.factor) : T(0);
}

template <class T>
void drop(const DropoutRows<T>& rows) {
  HWY_ALIGN std::uint16_t words[8 * kDrawn];
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const T* x = rows.x + r * rows.x_stride;
    T* out = rows.out + r * rows.out_stride;
    for (std::int64_t i = 0; i < rows.size; i += 8 * kDrawn) {
      draw(rows.rule.seed, rows.first_row + r, i / 8, words);
      keep(rows.rule, words, x + i, out + i, i + 8 * kDrawn < rows.size ? 8 * kDrawn : rows.size - i);
    }
  }
}

void drop_f32(const DropoutRows<float>& rows) { drop(rows); }
void drop_f64(const DropoutRows<double>& rows) { drop(rows); }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(drop_f32);
HWY_EXPORT(drop_f64);

}  // namespace

void drop_rows(const DropoutRows<float>& rows) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(drop_f32)(rows);
}

void drop_rows(const DropoutRows<double>& rows) {
  ensure_target();
  HWY_DYNAMIC_DISPATCH(drop_f64)(rows);
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
