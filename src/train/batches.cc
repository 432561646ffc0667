// Sorts pairs into batches of like length, in an order drawn for each epoch.
#include "train/batches.h"

#include <map>
#include <numeric>

#include "qkv/layers/sequences.h"
#include "qkv/random.h"
#include "train/streams.h"

namespace qkv::training {
namespace {

// Targets whose lengths agree but for so many tokens share a bucket.
constexpr std::int64_t kBucketWidth = 4;

std::int64_t size(const std::vector<std::int32_t>& tokens) { return static_cast<std::int64_t>(tokens.size()); }

struct Bucket {
  std::vector<std::uint32_t> chosen{};
  std::int64_t tokens = 0;
};

// Fisher and Yates.
template <class T>
void shuffle(std::vector<T>& values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

void append(const std::vector<std::int32_t>& tokens, std::vector<std::int32_t>& all,
            std::vector<std::int64_t>& lengths) {
  all.insert(all.end(), tokens.begin(), tokens.end());
  lengths.push_back(size(tokens));
}

}  // namespace

Batches make_batches(std::span<const TokenPair> pairs, std::int64_t batch_tokens, std::uint64_t seed,
                     std::uint64_t epoch) {
  Random random(seed, stream(Purpose::shuffle, epoch));
  std::vector<std::uint32_t> order(pairs.size());
  std::iota(order.begin(), order.end(), 0u);
  shuffle(order, random);
  Batches batches;
  const auto put = [&](std::uint32_t number, Bucket& bucket) {
    const std::int64_t tokens = size(pairs[number].source) + size(pairs[number].target);
    if (!bucket.chosen.empty() && bucket.tokens + tokens > batch_tokens) {
      batches.push_back(std::move(bucket.chosen));
      bucket = {};
    }
    bucket.chosen.push_back(number);
    bucket.tokens += tokens;
  };
  std::map<std::int64_t, Bucket> buckets;
  for (const std::uint32_t number : order) put(number, buckets[size(pairs[number].target) / kBucketWidth]);
  // What is left in the buckets fills batches across them, so that no epoch ends in many small ones.
  Bucket rest;
  for (const auto& [length, bucket] : buckets) {
    for (const std::uint32_t number : bucket.chosen) put(number, rest);
  }
  if (!rest.chosen.empty()) batches.push_back(std::move(rest.chosen));
  shuffle(batches, random);
  return batches;
}

PairBatch collect(std::span<const TokenPair> pairs, std::span<const std::uint32_t> chosen) {
  PairBatch batch;
  std::vector<std::int64_t> source_lengths, target_lengths;
  for (const std::uint32_t number : chosen) {
    append(pairs[number].source, batch.source, source_lengths);
    append(pairs[number].target, batch.target, target_lengths);
  }
  batch.source_offsets = offsets_of(source_lengths);
  batch.target_offsets = offsets_of(target_lengths);
  return batch;
}

}  // namespace qkv::training
