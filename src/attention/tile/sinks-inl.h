// Attention sinks: one more logit per head, of a key without a value, that no mask hides. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_SINKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_SINKS_INL_H_
#undef QKV_ATTENTION_TILE_SINKS_INL_H_
#else
#define QKV_ATTENTION_TILE_SINKS_INL_H_
#endif

#include "attention/tile/attention_task.h"
#include "attention/tile/softmax_state-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

inline bool has_sink(const AttentionTask& task) { return task.sink != -kInfinity<double>; }

// Its logit in the unit of a maximum.
template <Unit kUnit, class T>
T sink_of(const AttentionTask& task) {
  return static_cast<T>(kUnit == Unit::base2 ? task.sink * kLog2E : task.sink);
}

// `out` becomes that of its keys and the sink. `zeros`: as large as it, of which nothing is kept.
template <Unit kUnit, int kVectors, class T>
void add_sink(const AttentionTask& task, SoftmaxState<T, kVectors>& state, T* out, T* zeros) {
  constexpr int kColumns = kVectors * kLanes<T>;
  SoftmaxState<T, kVectors> sink;
  sink.reset();
  std::fill(sink.maximum, sink.maximum + kColumns, sink_of<kUnit, T>(task));
  std::fill(sink.sum, sink.sum + kColumns, T(1));
  std::fill_n(zeros, task.common->value_dim * kColumns, T(0));
  merge_states<kUnit>(state, out, sink, zeros, task.common->value_dim);
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
