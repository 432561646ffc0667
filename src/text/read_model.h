// The model of tokenizer.json by its "type". FormatError names the field and the rule.
#pragma once

#include <memory>

#include "text/json_fields.h"
#include "text/stages.h"

namespace qkv::text {

// Of {token: id}.
Vocabulary read_vocabulary(const JsonValue& tokens, const TokenLimits& limits);

// Its index is not built yet.
std::unique_ptr<Model> read_model(const JsonValue& stage, const TokenLimits& limits);

}  // namespace qkv::text
