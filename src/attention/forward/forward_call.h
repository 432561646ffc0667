// A checked call of attention(), carried out as it was scheduled.
#pragma once

#include "attention/call/attention_problem.h"
#include "attention/forward/forward_schedule.h"
#include "qkv/attention.h"

namespace qkv::inline attending {

// The problem's outputs are complete.
void run_forward(const AttentionProblem& problem, const AttentionSchedule& schedule, const AttentionExtras& extras);

// Makes outputs and weights of rows without keys NaN, after everything else of a call was written, its log-sum-exp
// (AttentionProblem::complete_outputs) among it.
void fill_empty_rows(const AttentionProblem& problem, int threads);

}  // namespace qkv::inline attending
