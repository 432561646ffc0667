/// \file
/// The plan() of a call of attention as one JSON object: printed by `qkv plan --json`, and "cost" in the output of
/// explain and in reports of attend (docs/explain_json.md).
#pragma once

#include <string>

#include "qkv/api.h"
#include "qkv/attention/attention_plan.h"

namespace qkv {

QKV_API std::string to_json(const AttentionPlan& plan);

}  // namespace qkv
