// The forward kernel that multiplies in bf16, behind its dispatch. Call ensure_target() once before.
#pragma once

#include "attention/forward/forward_kernel.h"

namespace qkv::inline attending {

// plan_forward() and attend_forward() for tasks of that precision. Only where why_not_reduced() has no reason.
ForwardPlan plan_reduced(const AttentionTask& task);
void attend_reduced(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys);

}  // namespace qkv::inline attending
