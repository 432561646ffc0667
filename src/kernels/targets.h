// Which of Highway's targets this project compiles its kernels for. Include before hwy/foreach_target.h.
// SSSE3 is too old to matter and AVX3_DL adds nothing that the kernels use.
#pragma once

#ifdef QKV_FEW_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif

// The portable target has one lane with every compiler, as it has with GCC 12.
#define HWY_BROKEN_EMU128 1
