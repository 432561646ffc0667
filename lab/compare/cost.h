// Costs of a model: steps, paths, reach and operations, counted from its layers; time and memory, as far as the
// system says; and how these grow with the length of a sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lab/compare/compare.h"
#include "lab/models/measurable.h"

namespace qkv::comparison {

// By how much the memory of the process is larger, at most, while `work` runs. None where /proc does not say.
std::optional<std::int64_t> peak_growth(const std::function<void()>& work);

// Bytes that are allocated and not freed.
std::int64_t allocated_bytes();

// As ComparedGrowth has it.
std::optional<ComparedExponent> fitted_exponent(const std::vector<std::int64_t>& lengths,
                                                const std::vector<double>& values);

ComparedGrowth growth_of(const std::vector<std::int64_t>& lengths, const std::function<double(std::int64_t)>& value);

// Costs counted from the layers, and the measured reach.
ComparedStructure structure_of(const Measurable& model, std::uint64_t seed);

// Time and memory in training and in answering, on one and on two threads. Stopped.
std::vector<ComparedCost> cost_of(Measurable& model, const std::vector<std::int64_t>& lengths);

}  // namespace qkv::comparison
