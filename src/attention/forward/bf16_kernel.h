// The forward kernel whose products take bf16, behind its dispatch. Call ensure_target() once before.
#pragma once

#include "attention/forward/forward_kernel.h"

namespace qkv::inline attending {

// plan_forward() and attend_forward() for tasks of any product but BlockProduct::exact.
ForwardPlan plan_bf16(const AttentionTask& task);
void attend_bf16(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys);

}  // namespace qkv::inline attending
