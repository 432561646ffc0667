// Pairs of token sequences as examples: their sizes, checksum and batches.

#include "core/refuse.h"
#include "io/files/byte_source.h"
#include "qkv/layers/sequences.h"
#include "qkv/train/examples.h"

namespace qkv {
namespace {

void append(const std::vector<std::int32_t>& tokens, std::vector<std::int32_t>& all,
            std::vector<std::int64_t>& lengths) {
  all.insert(all.end(), tokens.begin(), tokens.end());
  lengths.push_back(std::ssize(tokens));
}

}  // namespace

PairExamples::PairExamples(std::span<const TokenPair> pairs) : pairs_(pairs) {
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!pairs[i].source.empty() && !pairs[i].target.empty()) continue;
    refuse("train", "pair {} (from 0) has an empty side", i);
  }
}

ExampleSize PairExamples::size(std::int64_t i) const {
  const TokenPair& pair = pairs_[static_cast<std::size_t>(i)];
  return {.cost = std::ssize(pair.source) + std::ssize(pair.target), .length = std::ssize(pair.target)};
}

std::uint32_t PairExamples::checksum() const {
  std::uint32_t sum = 0;
  for (const TokenPair& pair : pairs_) {
    for (const auto* tokens : {&pair.source, &pair.target}) {
      const std::int64_t size = std::ssize(*tokens);
      sum = io::crc32({reinterpret_cast<const char*>(&size), sizeof size}, sum);
      sum = io::crc32({reinterpret_cast<const char*>(tokens->data()), tokens->size() * sizeof(std::int32_t)}, sum);
    }
  }
  return sum;
}

PairBatch PairExamples::collect(std::span<const std::uint32_t> chosen) const {
  PairBatch batch;
  std::vector<std::int64_t> source_lengths, target_lengths;
  for (const std::uint32_t number : chosen) {
    append(pairs_[number].source, batch.source, source_lengths);
    append(pairs_[number].target, batch.target, target_lengths);
  }
  batch.source_offsets = offsets_of(source_lengths);
  batch.target_offsets = offsets_of(target_lengths);
  return batch;
}

}  // namespace qkv
