// Why a call is not the fastest possible: a line for each reason, for plan().
#pragma once

#include <cstdint>

#include "attention/call/attention_problem.h"
#include "attention/forward/forward_schedule.h"
#include "qkv/attention/attention_plan.h"

namespace qkv::inline attending {

void remark_on_target(AttentionPlan& plan);
// `allowed`: threads that the memory limit leaves of those that were asked for.
void remark_on_threads(AttentionPlan& plan, int allowed, int asked);
// What every pass spends on the options, with the times that docs/lab/attention_forward.md measures.
void remark_on_options(AttentionPlan& plan, const AttentionProblem& problem, const AttentionOptions& options);
// Precision, blocks that are not full, and what is asked for besides the output.
void remark_on_forward(AttentionPlan& plan, const AttentionProblem& problem, const AttentionSchedule& schedule,
                       const AttentionOptions& options, const AttentionExtras& extras);

}  // namespace qkv::inline attending
