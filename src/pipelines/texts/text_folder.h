// Opens what reads pairs of texts.
#pragma once

#include <string>

#include "qkv/pipelines/text_pipeline.h"

namespace qkv::inline pipelines {

// FormatError as from TextPipeline::load, and, naming tokenizer.json, unless its tokenizer makes pairs of texts that
// fit the model.
TextPipeline open_pairs(const std::string& folder, TextTask task, WeightStorage storage);

}  // namespace qkv::inline pipelines
