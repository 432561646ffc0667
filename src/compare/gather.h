// Puts the results of runs, and what else is found, into a comparison.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compare/run.h"
#include "qkv/compare.h"

namespace qkv::comparison {

// What one seed found.
void add_run(Comparison& comparison, const Run& run, const RunResult& result);
void add_gradients(Comparison& comparison, const std::string& model, const std::string& when,
                   const std::map<std::int64_t, double>& norms);

}  // namespace qkv::comparison
