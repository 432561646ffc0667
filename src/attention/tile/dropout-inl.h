// Dropout of a tile of weights [key][query]: the bits of include/qkv/attention/dropout.h with vectors over queries.
// Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_DROPOUT_INL_H_
#undef QKV_ATTENTION_TILE_DROPOUT_INL_H_
#else
#define QKV_ATTENTION_TILE_DROPOUT_INL_H_
#endif

#include <algorithm>

#include "attention/tile/attention_task.h"
#include "qkv/random.h"
#include "simd/philox-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Dropout for a block of queries, of which the first is `begin`.
template <class T, int kVectors>
class BlockDropout {
 public:
  BlockDropout(const AttentionTask& task, std::int64_t begin) : task_(task), begin_(begin) {}

  bool is_on() const { return task_.common->dropout.is_on(); }

  // weights [rows][column] of keys key <= j < key + rows: those that are dropped become 0, the others grow by 1 / rate.
  HWY_NOINLINE void drop(std::int64_t key, std::int64_t rows, T* weights) {
    const Tag<T> d;
    const Vec<T> factor = hn::Set(d, static_cast<T>(task_.common->dropout.factor));
    for (std::int64_t j = key; j < key + rows; ++j) {
      load(j);
      QKV_UNROLL for (int c = 0; c < kVectors; ++c, weights += kLanes<T>) {
        // A product, so that -0, the mark of a hidden key, stays what it is.
        hn::Store(hn::Mul(hn::Load(d, weights), hn::IfThenElseZero(kept(j, c), factor)), d, weights);
      }
    }
  }

  // The same of a tile of backward's, and what it means for the gradients of the logits: on entry
  // weight * (grad_out . value - delta) with delta = rate * rowsum(grad_out * out).
  HWY_NOINLINE void drop(std::int64_t key, std::int64_t rows, const T* delta, T* weights, T* gradients) {
    const Tag<T> d;
    const Vec<T> factor = hn::Set(d, static_cast<T>(task_.common->dropout.factor));
    for (std::int64_t j = key; j < key + rows; ++j) {
      load(j);
      for (int c = 0; c < kVectors; ++c, weights += kLanes<T>, gradients += kLanes<T>) {
        const Vec<T> weight = hn::Load(d, weights), below = hn::Neg(hn::Load(d, delta + c * kLanes<T>));
        const auto keeps = kept(j, c);
        const Vec<T> gradient = hn::IfThenElse(keeps, hn::Load(d, gradients), hn::Mul(weight, below));
        hn::Store(hn::Mul(gradient, factor), d, gradients);
        hn::Store(hn::Mul(weight, hn::IfThenElseZero(keeps, factor)), d, weights);
      }
    }
  }

 private:
  static constexpr int kColumns = kVectors * kLanes<T>;
  static constexpr int kNumbers = 4;                 // of 32 bits that eight keys share
  static constexpr int kBelow = 8 * sizeof(T) - 32;  // bits of a lane below such a number
  using Index = hwy::MakeSigned<T>;
  using SignedTag = hn::RebindToSigned<Tag<T>>;
  using Signed = hn::Vec<SignedTag>;

  // The random bits of the block that holds the key: two keys' words on top of each lane, with their signs flipped,
  // since comparisons of signed numbers are what every target has.
  HWY_INLINE void load(std::int64_t key) {
    if (key / DropoutRule::kKeys == block_) return;
    block_ = key / DropoutRule::kKeys;
    const Signed flip = hn::Set(SignedTag(), static_cast<Index>(std::uint64_t{0x80008000} << kBelow));
    for (int c = 0; c < kVectors; ++c) {
      Signed bits[kNumbers];
      draw(begin_ + c * kLanes<T>, bits);
      for (int n = 0; n < kNumbers; ++n) {
        hn::Store(hn::Xor(bits[n], flip), SignedTag(), bits_[n] + c * kLanes<T>);
      }
    }
  }

  // Of as many queries as a vector has lanes.
  HWY_INLINE void draw(std::int64_t query, Signed (&bits)[kNumbers]) const {
    const auto block = static_cast<std::uint32_t>(block_), first = static_cast<std::uint32_t>(query);
#if HWY_TARGET == HWY_SCALAR
    const auto numbers =
        philox({block, first, static_cast<std::uint32_t>(task_.head), static_cast<std::uint32_t>(task_.sequence)},
               task_.common->dropout.seed, DropoutRule::kRounds);
    for (int n = 0; n < kNumbers; ++n) {
      bits[n] = hn::Set(SignedTag(), static_cast<Index>(std::uint64_t{numbers[static_cast<std::size_t>(n)]} << kBelow));
    }
#else
    const PhiloxCounters::D wide;
    const auto lane = hn::Iota(wide, 0);
    const auto philox_of = [&](PhiloxCounters::V queries) HWY_ATTR {
      PhiloxCounters counters(hn::Set(wide, block), queries, hn::Set(wide, static_cast<std::uint32_t>(task_.head)),
                              hn::Set(wide, static_cast<std::uint32_t>(task_.sequence)));
      counters.run<DropoutRule::kRounds>(task_.common->dropout.seed);
      return counters;
    };
    if constexpr (sizeof(T) == 8) {
      const PhiloxCounters all = philox_of(hn::Add(lane, hn::Set(wide, first)));
      for (int n = 0; n < kNumbers; ++n) bits[n] = hn::BitCast(SignedTag(), hn::ShiftLeft<32>(all.bits(n)));
    } else {
      const auto twice = hn::ShiftLeft<1>(lane);
      const PhiloxCounters even = philox_of(hn::Add(twice, hn::Set(wide, first)));
      const PhiloxCounters odd = philox_of(hn::Add(twice, hn::Set(wide, first + 1)));
      for (int n = 0; n < kNumbers; ++n) {
        bits[n] = hn::OddEven(hn::BitCast(SignedTag(), hn::ShiftLeft<32>(odd.bits(n))),
                              hn::BitCast(SignedTag(), even.bits(n)));
      }
    }
#endif
  }

  // Lanes of vector c that keep the weight of `key`, which is in the block that was loaded.
  HWY_INLINE auto kept(std::int64_t key, int c) const {
    const auto word = key % DropoutRule::kKeys;
    const Signed pair = hn::Load(SignedTag(), bits_[word / 2] + c * kLanes<T>);
    const Signed bits = word % 2 == 0 ? hn::ShiftLeft<16>(pair) : pair;
    const std::uint64_t threshold = task_.common->dropout.threshold ^ 0x8000u;
    return hn::RebindMask(Tag<T>(), hn::Lt(bits, hn::Set(SignedTag(), static_cast<Index>(threshold << (kBelow + 16)))));
  }

  const AttentionTask& task_;
  const std::int64_t begin_;
  std::int64_t block_ = -1;
  HWY_ALIGN Index bits_[kNumbers][kColumns];
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
