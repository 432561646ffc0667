// The forward kernel that multiplies in bf16, behind its dispatch. Call ensure_target() once before.
#pragma once

#include <string>

#include "kernels/attention_forward.h"

namespace qkv {

inline constexpr std::int64_t kMostReducedDim = 512;  // of heads and values: a thread stays below 1 MiB

// Empty if the selected target of this CPU has such a kernel for several queries; else the reason, a line.
std::string why_not_reduced(Dtype storage, Score::Kind score, std::int64_t key_dim, std::int64_t value_dim);

// plan_forward() and attend_forward() for tasks of that precision. Only if there is no reason not to.
ForwardPlan plan_reduced(const AttentionTask& task);
void attend_reduced(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys);

}  // namespace qkv
