// Changes one token at a time and compares the last logits.
#include "compare/measured_reach.h"

#include <cstring>
#include <vector>

#include "qkv/random.h"

namespace qkv::comparison {

std::int64_t measured_reach(const SequenceModel& model, std::int64_t length, std::uint64_t seed) {
  Random random(seed);
  const auto vocab = static_cast<std::uint64_t>(model.config().vocab);
  std::vector<std::int32_t> tokens;
  for (std::int64_t t = 0; t < length; ++t) tokens.push_back(static_cast<std::int32_t>(random.below(vocab)));
  // The sequence as it is, then with each of its tokens changed.
  SequenceBatch batch;
  for (std::int64_t changed = -1; changed < length; ++changed) {
    batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
    if (changed < 0) continue;
    std::int32_t& token = batch.tokens[batch.tokens.size() - static_cast<std::size_t>(length - changed)];
    token = static_cast<std::int32_t>((static_cast<std::uint64_t>(token) + 1 + random.below(vocab - 1)) % vocab);
  }
  batch.offsets = offsets_of(std::vector<std::int64_t>(static_cast<std::size_t>(length + 1), length));
  const Tensor logits = model.logits(batch);
  const auto bytes = static_cast<std::size_t>(logits.size(1)) * size_of(logits.dtype());
  const auto last = [&](std::int64_t sequence) {
    return logits.view().bytes() + static_cast<std::size_t>((sequence + 1) * length - 1) * bytes;
  };
  for (std::int64_t changed = 0; changed < length; ++changed) {
    if (std::memcmp(last(0), last(1 + changed), bytes) != 0) return length - 1 - changed;
  }
  return 0;
}

}  // namespace qkv::comparison
