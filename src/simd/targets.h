// Which of Highway's targets this project compiles its kernels for. Include before hwy/foreach_target.h.
// SSSE3 is too old to matter, AVX3_DL adds nothing that the kernels use, and vectors of SVE cannot live in arrays.
#pragma once

#define QKV_LEFT_OUT (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#ifdef QKV_ONLY_TARGET  // beside the portable one
#define HWY_DISABLED_TARGETS (QKV_LEFT_OUT | ((HWY_SSE4 | HWY_AVX2 | HWY_AVX3 | HWY_NEON) & ~(QKV_ONLY_TARGET)))
#else
#define HWY_DISABLED_TARGETS QKV_LEFT_OUT
#endif

// The portable target has one lane with every compiler, as it has with GCC 12.
#define HWY_BROKEN_EMU128 1
