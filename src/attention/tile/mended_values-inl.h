// What products of values and weights get wrong where zeros stand for hidden keys, and where tiles multiply: outputs
// that depend on other than ordinary values, by vectors. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_MENDED_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_MENDED_VALUES_INL_H_
#undef QKV_ATTENTION_TILE_MENDED_VALUES_INL_H_
#else
#define QKV_ATTENTION_TILE_MENDED_VALUES_INL_H_
#endif

#include "attention/tile/attention_task.h"
#include "attention/tile/tile_pieces.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

HWY_INLINE auto is_ordinary(Vec<float> x, OrdinaryNumbers numbers) {
  const Tag<float> d;
  const Vec<float> size = hn::Abs(x);
  const auto in_range = hn::And(hn::Ge(size, hn::Set(d, numbers.least)), hn::Lt(size, hn::Set(d, numbers.end)));
  return hn::Or(in_range, hn::Eq(x, hn::Zero(d)));
}

HWY_INLINE auto is_subnormal(Vec<float> x) {
  const Tag<float> d;
  return hn::And(hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-126f)), hn::Ne(x, hn::Zero(d)));
}

HWY_INLINE bool has_subnormal(const float* sums, std::int64_t count) {
  const Tag<float> d;
  for (std::int64_t i = 0; i < count; i += kLanes<float>) {
    if (HWY_UNLIKELY(!hn::AllFalse(d, is_subnormal(hn::Load(d, sums + i))))) return true;
  }
  return false;
}

// Sums that were subnormal counted as 0 when products were added to them: `after` becomes what they were `before` and
// what was added. A query that sees no key of a block keeps its own so, whoever else sees one.
HWY_INLINE void restore_subnormals(const float* before, std::int64_t count, float* after) {
  const Tag<float> d;
  for (std::int64_t i = 0; i < count; i += kLanes<float>) {
    const Vec<float> sums = hn::Load(d, before + i), added = hn::Load(d, after + i);
    hn::Store(hn::IfThenElse(is_subnormal(sums), hn::Add(added, sums), added), d, after + i);
  }
}

// `after` becomes, where a query sees an odd value of these keys, what it was `before` and the products of the keys it
// sees, one after the other. Of dims dim ... dim + rows - 1. weight_of(key, c): of a vector of queries, -0 where the
// key is hidden.
template <int kVectors, class WeightOf>
HWY_NOINLINE void mend_values(const AttentionTask& task, const TilePieces& pieces, KeyRange keys, std::int64_t dim,
                              std::int64_t rows, const WeightOf& weight_of, const float* before, float* after) {
  constexpr int kColumns = kVectors * kLanes<float>;
  const Tag<float> d;
  const auto sees = [&](Vec<float> weight) {
    const hn::RebindToSigned<Tag<float>> bits;
    const auto hidden = hn::Eq(hn::BitCast(bits, weight), hn::BitCast(bits, hn::Set(d, -0.0f)));
    return hn::RebindMask(d, hn::Not(hidden));
  };
  with_type<float>(task.value.type, [&]<class S>(S) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto exact = [&](std::int64_t key) {
        return static_cast<float>(rows_from<S>(task.value, key, keys.last).data[dim + r]);
      };
      const auto value = [&](std::int64_t key) {
        return pieces.rounds_inputs ? static_cast<float>(BFloat16(exact(key))) : exact(key);
      };
      for (int c = 0; c < kVectors; ++c) {
        auto seen = hn::Ne(hn::Zero(d), hn::Zero(d));
        for (std::int64_t key = keys.first; key < keys.last; ++key) {
          const bool ordinary = hn::AllTrue(d, is_ordinary(hn::Set(d, exact(key)), pieces.values));
          if (!ordinary) seen = hn::Or(seen, sees(weight_of(key, c)));
        }
        if (hn::AllFalse(d, seen)) continue;
        const std::int64_t at = r * kColumns + c * kLanes<float>;
        Vec<float> sum = hn::Load(d, before + at);
        for (std::int64_t key = keys.first; key < keys.last; ++key) {
          const Vec<float> weight = weight_of(key, c);
          sum = hn::IfThenElse(sees(weight), hn::MulAdd(weight, hn::Set(d, value(key)), sum), sum);
        }
        hn::Store(hn::IfThenElse(seen, sum, hn::Load(d, after + at)), d, after + at);
      }
    }
  });
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
