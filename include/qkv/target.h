/// \file
/// The CPU targets that the kernels are compiled for, and which of them runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qkv/api.h"

namespace qkv {

struct Target {
  /// "amx" (avx512 and tiles for bf16, f16 and int8), "avx512-bf16" (avx512 and pairs of bf16), "avx512", "avx2",
  /// "sse4", "neon", "portable", best first
  std::string name;
  bool usable = false;    ///< this CPU has what the target needs
  bool selected = false;  ///< kernels run on this one
  int lanes = 1;          ///< floats in a vector
  /// Whether a product and a sum are rounded once. All targets that do so give f32 and f64 results the same bits
  /// (docs/arithmetic.md).
  bool fused = false;
};

/// Every target compiled in, best first.
QKV_API std::vector<Target> targets();

/// Name of the selected target. At first use: the environment's QKV_TARGET if set, else the best usable one.
/// std::invalid_argument if QKV_TARGET names a target that is unknown or not usable here.
QKV_API std::string selected_target();

/// Selects a target for the whole process ("" returns to the default). Not while a computation runs.
/// std::invalid_argument, listing the usable ones, if `name` is not usable here.
QKV_API void select_target(std::string_view name);

}  // namespace qkv
