// The kernel of attention_jvp(), compiled once per CPU target.
#include "attention/tangent/jvp_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/tangent/jvp_kernel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/depth_steps-inl.h"
// Only after it, what multiplies.
#include "attention/tangent/jvp_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T>
void jvp_typed(const JvpTask& task, std::int64_t begin, std::int64_t end, const ScratchRoom& scratch) {
  if (end - begin <= kLanes<T>) return JvpBlock<T, 1>(task, begin, end, scratch).run();
  JvpBlock<T, kTileVectors>(task, begin, end, scratch).run();
}

void jvp(const JvpTask& task, std::int64_t begin, std::int64_t end, const ScratchRoom& scratch) {
  task.forward.visit_accumulation([&]<class T>(T) { jvp_typed<T>(task, begin, end, scratch); });
}

template <class T>
JvpPlan jvp_plan_typed(const AttentionTask& task) {
  return {.block_queries = kTileColumns<T>,
          .scratch_bytes = static_cast<std::size_t>(JvpScratch<T, kTileVectors>(task).total()) * sizeof(T)};
}

JvpPlan jvp_plan(const AttentionTask& task) {
  return task.visit_accumulation([&]<class T>(T) { return jvp_plan_typed<T>(task); });
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::inline attending {
namespace {

HWY_EXPORT(jvp);
HWY_EXPORT(jvp_plan);

}  // namespace

JvpPlan plan_jvp(const AttentionTask& task) { return HWY_DYNAMIC_DISPATCH(jvp_plan)(task); }

void attend_jvp(const JvpTask& task, std::int64_t begin, std::int64_t end, const ScratchRoom& scratch) {
  HWY_DYNAMIC_DISPATCH(jvp)(task, begin, end, scratch);
}

}  // namespace qkv::inline attending
#endif  // HWY_ONCE
