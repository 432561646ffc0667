// The run of a sequence model.
#pragma once

#include "compare/run_training.h"

namespace qkv::comparison {

RunResult run_reader(const Run& run, const RunPlace& place);

}  // namespace qkv::comparison
