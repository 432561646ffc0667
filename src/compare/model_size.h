// Sizes at which models of all kinds have the same number of parameters.
#pragma once

#include <cstdint>

#include "compare/sequence_model.h"
#include "compare/translator_model.h"

namespace qkv::comparison {

// A sequence model of this vocabulary whose number of parameters is as near to `parameters` as can be.
SequenceModelConfig sized(SequenceKind kind, std::int64_t vocab, std::int64_t parameters);

// A translator of about `parameters`: within 1.5 % of the number that all kinds come nearest to.
TranslatorConfig sized(TranslatorKind kind, const EncoderDecoderTokens& tokens, std::int64_t parameters);

}  // namespace qkv::comparison
