// The exact forward kernel of bf16 and f16 on the target "amx", behind its dispatch. Call ensure_target() once before.
#pragma once

#include "attention/forward/forward_kernel.h"

namespace qkv::inline attending {

// Whether tiles multiply a task's numbers; if it has several queries, plan_tiled() and attend_tiled() do what
// plan_forward() and attend_forward() do for it.
bool is_tiled(const AttentionTask& task);

ForwardPlan plan_tiled(const AttentionTask& task);
void attend_tiled(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys);

}  // namespace qkv::inline attending
