// What is counted from the layers of a model, and its reach beside it.
#pragma once

#include "compare/sequence_model.h"
#include "qkv/compare.h"

namespace qkv::comparison {

ComparedStructure structure_of(const std::string& name, const SequenceModel& model, std::uint64_t seed);

}  // namespace qkv::comparison
