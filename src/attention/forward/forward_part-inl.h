// What a block of queries keeps: its scratch, and the partial result of some keys. Included once per CPU target.

#if defined(QKV_ATTENTION_FORWARD_FORWARD_PART_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_FORWARD_FORWARD_PART_INL_H_
#undef QKV_ATTENTION_FORWARD_FORWARD_PART_INL_H_
#else
#define QKV_ATTENTION_FORWARD_FORWARD_PART_INL_H_
#endif

#include "attention/extras/extras_pass-inl.h"
#include "attention/tile/logits-inl.h"
#include "attention/tile/softmax_state-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// In elements of T, each part a multiple of the vector. Blocks that are computed in turns share the first part.
template <class T, int kVectors, class Product>
struct ForwardScratch {
  explicit ForwardScratch(const AttentionTask& task)
      : weights(Product::weight_rows(task) * kVectors * kLanes<T>),
        out(task.common->value_dim * kVectors * kLanes<T>),
        top_keys(TopKeys<T, kVectors>::scratch_size(task)),
        logits(task) {}

  std::int64_t of_block() const { return 2 * out + top_keys + logits.total(); }

  std::int64_t weights, out, top_keys;
  LogitScratch<T, kVectors, Product> logits;
};

// The partial result of some keys in memory: a state and, behind it, out [value_dim][columns].
template <class T, int kVectors>
struct ForwardPart {
  using State = SoftmaxState<T, kVectors>;

  static std::size_t out_bytes(const AttentionTask& task) {
    return sizeof(T) * static_cast<std::size_t>(task.common->value_dim * kVectors * kLanes<T>);
  }
  static std::size_t bytes(const AttentionTask& task) { return (sizeof(State) + out_bytes(task) + 63) / 64 * 64; }

  // `part` becomes the result of its keys and of those of `next`.
  static void merge(const AttentionTask& task, std::byte* part, const std::byte* next) {
    task.is_plain ? merge_in<Unit::base2>(task, part, next) : merge_in<Unit::natural>(task, part, next);
  }

 private:
  template <Unit kUnit>
  static void merge_in(const AttentionTask& task, std::byte* part, const std::byte* next) {
    merge_states<kUnit>(*reinterpret_cast<State*>(part), reinterpret_cast<T*>(part + sizeof(State)),
                        *reinterpret_cast<const State*>(next), reinterpret_cast<const T*>(next + sizeof(State)),
                        task.common->value_dim);
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
