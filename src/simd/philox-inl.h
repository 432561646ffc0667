// Philox of a vector of counters. Included once per CPU target; the portable one has no use for it.

#if defined(QKV_SIMD_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_PHILOX_INL_H_
#undef QKV_SIMD_PHILOX_INL_H_
#else
#define QKV_SIMD_PHILOX_INL_H_
#endif

#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// A number lies in the low half of a 64-bit lane, where the multiplication finds it and leaves its product; what the
// high half holds does not matter.
class PhiloxCounters {
 public:
  using D = hn::ScalableTag<std::uint64_t>;
  using V = hn::Vec<D>;

  HWY_INLINE PhiloxCounters(V n0, V n1, V n2, V n3) : bits_{n0, n1, n2, n3} {}

  template <int kRounds>
  HWY_INLINE void run(std::uint64_t seed) {
    auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
    QKV_UNROLL for (int round = 0; round < kRounds; ++round) {
      const V product0 = multiply(bits_[0], 0xD2511F53u), product1 = multiply(bits_[2], 0xCD9E8D57u);
      bits_[0] = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), bits_[1]), hn::Set(D(), key0));
      bits_[2] = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), bits_[3]), hn::Set(D(), key1));
      bits_[1] = product1;
      bits_[3] = product0;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
  }
  HWY_INLINE V bits(int n) const { return bits_[n]; }

 private:
  static HWY_INLINE V multiply(V number, std::uint32_t factor) {
    const hn::Repartition<std::uint32_t, D> half;
    return hn::MulEven(hn::BitCast(half, number), hn::Set(half, factor));
  }

  V bits_[4];
};
#endif

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
