// A checked call of attention(), carried out as it was scheduled.
#pragma once

#include "attention/call/attention_problem.h"
#include "attention/forward/forward_schedule.h"
#include "qkv/attention.h"

namespace qkv::inline attending {

void run_forward(AttentionProblem& problem, const AttentionSchedule& schedule, const AttentionExtras& extras);

}  // namespace qkv::inline attending
