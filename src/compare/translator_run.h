// The run of a translator.
#pragma once

#include "compare/run_training.h"

namespace qkv::comparison {

// `phrases` is the file of the phrase book.
RunResult run_translator(const Run& run, const RunPlace& place, const std::string& phrases);

}  // namespace qkv::comparison
