// Queries that see no key, where they shall not be 0.
#pragma once

#include "attention/call/attention_problem.h"

namespace qkv::inline attending {

// Makes outputs and weights of rows without keys NaN, after everything else of a call was written, its log-sum-exp
// (AttentionProblem::complete_outputs) among it.
void fill_empty_rows(const AttentionProblem& problem, int threads);

}  // namespace qkv::inline attending
