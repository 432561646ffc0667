// Sorts examples into batches of like length, in an order drawn for each epoch.
#include "train/data/batches.h"

#include <map>
#include <numeric>

#include "qkv/random.h"

namespace qkv::training {
namespace {

// Lengths that agree but for so much share a bucket.
constexpr std::int64_t kBucketWidth = 4;

struct Bucket {
  std::vector<std::uint32_t> chosen{};
  std::int64_t cost = 0;
};

// Fisher and Yates.
template <class T>
void shuffle(std::vector<T>& values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

}  // namespace

Batches make_batches(const ExampleSet& examples, std::int64_t most, std::uint64_t seed, std::uint64_t epoch) {
  Random random(seed, stream(Purpose::shuffle, epoch));
  std::vector<std::uint32_t> order(static_cast<std::size_t>(examples.count()));
  std::iota(order.begin(), order.end(), 0u);
  shuffle(order, random);
  Batches batches;
  const auto put = [&](std::uint32_t number, std::int64_t cost, Bucket& bucket) {
    if (!bucket.chosen.empty() && bucket.cost + cost > most) {
      batches.push_back(std::move(bucket.chosen));
      bucket = {};
    }
    bucket.chosen.push_back(number);
    bucket.cost += cost;
  };
  std::map<std::int64_t, Bucket> buckets;
  for (const std::uint32_t number : order) {
    const ExampleSize size = examples.size(number);
    put(number, size.cost, buckets[size.length / kBucketWidth]);
  }
  // The rest of the buckets fills batches across them, so that no epoch ends in many small ones.
  Bucket rest;
  for (const auto& [length, bucket] : buckets) {
    for (const std::uint32_t number : bucket.chosen) put(number, examples.size(number).cost, rest);
  }
  if (!rest.chosen.empty()) batches.push_back(std::move(rest.chosen));
  shuffle(batches, random);
  return batches;
}

}  // namespace qkv::training
