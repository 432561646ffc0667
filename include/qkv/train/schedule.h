/// \file
/// The learning rate of each step: a linear warm-up to `rate`, then a decay.
///   inverse_sqrt  rate * sqrt(warmup / step). Source: Vaswani et al., "Attention is all you need" (2017), section 5.3.
///   cosine        rate * (1 + cos(pi * (step - warmup) / (steps - warmup))) / 2. Source: Loshchilov, Hutter, "SGDR"
///   (2016).
#pragma once

#include <cstdint>

#include "qkv/api.h"

namespace qkv {

enum class Decay { inverse_sqrt, cosine };

struct ScheduleConfig {
  double rate = 1e-3;  ///< the highest
  std::int64_t warmup = 1000;
  Decay decay = Decay::inverse_sqrt;
};

/// For step 1, 2 ... `steps`, the last one.
QKV_API double learning_rate(const ScheduleConfig& config, std::int64_t step, std::int64_t steps);

}  // namespace qkv
