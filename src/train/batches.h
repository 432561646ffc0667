// Pairs in batches of about so many tokens, pairs of like length together, in an order drawn anew for each epoch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/train/training.h"

namespace qkv::training {

using Batches = std::vector<std::vector<std::uint32_t>>;  // numbers of pairs

// Every pair once. A batch has at most `batch_tokens` tokens of both sides together, or one pair.
Batches make_batches(std::span<const TokenPair> pairs, std::int64_t batch_tokens, std::uint64_t seed,
                     std::uint64_t epoch);

PairBatch collect(std::span<const TokenPair> pairs, std::span<const std::uint32_t> chosen);

}  // namespace qkv::training
