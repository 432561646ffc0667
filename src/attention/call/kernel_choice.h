// Which kernel a head of a sequence is computed by, and in which precision.
#pragma once

#include <string>

#include "attention/tile/attention_task.h"

namespace qkv::inline attending {

// Sets the kernel of a task whose rules are set, its precision (`asked` where there is a kernel for it), what
// multiplies in blocks and whether its logits are plain. A query that is alone in its sequence has a kernel of its own
// if its score is a dot product.
void choose_kernel(AttentionTask& task, Precision asked);

inline constexpr std::int64_t kMostReducedDim = 512;  // of heads and values: a thread stays below 1 MiB

// Empty if the selected target of this CPU has a kernel for several queries that multiplies in bf16; else the reason, a
// line.
std::string why_not_reduced(Dtype storage, Score::Kind score, std::int64_t key_dim, std::int64_t value_dim);

}  // namespace qkv::inline attending
