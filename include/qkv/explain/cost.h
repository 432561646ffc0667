/// \file
/// What plan() says of a call of attention, as one JSON object: `qkv plan --json` prints it, and what explain and the
/// reports of attend write has it as "cost" (docs/explain_json.md).
#pragma once

#include <string>

#include "qkv/api.h"
#include "qkv/attention/attention_plan.h"

namespace qkv {

QKV_API std::string to_json(const AttentionPlan& plan);

}  // namespace qkv
