// Examples in batches of about one cost, those of like length together, in an order drawn anew for each epoch.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/train/examples.h"

namespace qkv::training {

using Batches = std::vector<std::vector<std::uint32_t>>;  // numbers of examples

// Every example once. The costs of a batch add up to at most `most`, or it has one example.
Batches make_batches(const ExampleSet& examples, std::int64_t most, std::uint64_t seed, std::uint64_t epoch);

}  // namespace qkv::training
