// Which of Highway's targets this project compiles its kernels for. Include before hwy/foreach_target.h.
// SSSE3 is too old to matter and AVX3_DL adds nothing that the kernels use.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
