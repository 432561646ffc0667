// How multiply_tile() takes the steps of the depth in attention, for what is included after it. Included once per CPU
// target.

#if defined(QKV_SIMD_DEPTH_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_DEPTH_STEPS_INL_H_
#undef QKV_SIMD_DEPTH_STEPS_INL_H_
#else
#define QKV_SIMD_DEPTH_STEPS_INL_H_
#endif

// A step of few products is short beside what counts the steps. Elsewhere more steps at a time gain less than they take
// to compile.
#undef QKV_UNROLL_DEPTH
#if HWY_TARGET == HWY_AVX2
#define QKV_UNROLL_DEPTH QKV_UNROLL_FOUR_TIMES
#else
#define QKV_UNROLL_DEPTH
#endif

#endif  // per-target include guard
