// The exact forward kernel of bf16 on the target "avx512-bf16", behind its dispatch. Call ensure_target() once before.
#pragma once

#include "attention/forward/forward_kernel.h"

namespace qkv::inline attending {

// Whether a task multiplies its queries by keys in pairs; if it has several queries, plan_paired() and attend_paired()
// do what plan_forward() and attend_forward() do for it.
bool is_paired(const AttentionTask& task);

ForwardPlan plan_paired(const AttentionTask& task);
void attend_paired(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys);

}  // namespace qkv::inline attending
