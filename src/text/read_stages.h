// The stages of tokenizer.json around the model, each by its "type". FormatError names the field and the rule.
#pragma once

#include <memory>

#include "text/json_fields.h"
#include "text/stages.h"

namespace qkv::text {

std::unique_ptr<Normalizer> read_normalizer(const JsonValue& stage);
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonValue& stage);
std::unique_ptr<Decoder> read_decoder(const JsonValue& stage);

}  // namespace qkv::text
