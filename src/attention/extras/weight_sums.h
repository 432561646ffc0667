// Sums of the weights of one head over its queries: what each key receives, and averages over parts of the matrix. They
// are kept in double, since millions of weights may add up to one number, and rounded once, when all are there.
#pragma once

#include <cstddef>

#include "attention/tile/attention_task.h"

namespace qkv::inline attending {

// The task with memory for sums in double, which begin with 0, in place of where it asks for them: `received`, of each
// key, and `block_weights`, of each part, [block_rows][block_columns].
AttentionTask with_sums(AttentionTask task, std::byte* memory);

// Writes them where the task asks for them.
void write_sums(const AttentionTask& task, const std::byte* memory);

}  // namespace qkv::inline attending
