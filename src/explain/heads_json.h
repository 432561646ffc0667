// One head of a survey as a JSON object.
#pragma once

#include "explain/json_numbers.h"
#include "qkv/explain/explain_model.h"

namespace qkv {

OrderedJson to_object(const HeadSurvey::Entry& entry);

}  // namespace qkv
