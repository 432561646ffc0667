// Draws examples of the tasks for sequence models.
#include "lab/compare/sequence_tasks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/mathematics.h"

namespace qkv::comparison {
namespace {

constexpr std::int32_t kNoise = 6;        // kinds of it
constexpr std::uint64_t kMostBefore = 8;  // tokens of it before the symbol
constexpr std::int32_t kQuestion = kSymbols + kNoise;
constexpr std::int32_t kMark = kSymbols, kBlank = kSymbols + 1;
constexpr std::int32_t kKeys = 24;

// Those of recall are doubled; 30 and 31 are on both sides of what the convolutions reach.
constexpr std::array<std::int64_t, 12> kDistances = {1, 2, 4, 8, 16, 24, 30, 31, 48, 64, 96, 128};
constexpr std::array<std::int64_t, 6> kLengths = {1, 2, 4, 8, 12, 16};
constexpr std::array<std::int64_t, 6> kPairs = {1, 2, 4, 8, 12, 16};

std::int32_t symbol(Random& random) { return static_cast<std::int32_t>(random.below(kSymbols)); }

// Learning at a short distance helps at a longer one: distances are drawn evenly by their logarithm, lengths as
// they are.
std::int64_t draw_extent(SequenceTask task, Random& random) {
  const std::int64_t most = extents_of(task).back();
  if (task != SequenceTask::recall)
    return 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most)));
  const double drawn = exp(random.uniform() * log(static_cast<double>(most + 1)));
  return std::clamp(static_cast<std::int64_t>(drawn), std::int64_t{1}, most);
}

SequenceExample draw_copy(std::int64_t length, Random& random) {
  SequenceExample example;
  for (std::int64_t i = 0; i < length; ++i) example.tokens.push_back(symbol(random));
  example.labels.assign(example.tokens.size(), -1);
  example.labels.insert(example.labels.end(), example.tokens.begin(), example.tokens.end());
  example.tokens.push_back(kMark);
  example.tokens.resize(example.labels.size(), kBlank);
  return example;
}

SequenceExample draw_key_value(std::int64_t pairs, Random& random) {
  std::array<std::int32_t, kKeys> keys;
  std::iota(keys.begin(), keys.end(), kSymbols);
  const auto shuffle = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) std::swap(keys[i], keys[i + random.below(keys.size() - i)]);
  };
  shuffle(static_cast<std::size_t>(pairs));
  std::array<std::int32_t, kKeys> values;
  SequenceExample example;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int32_t key = keys[static_cast<std::size_t>(i)], value = symbol(random);
    values[static_cast<std::size_t>(key - kSymbols)] = value;
    example.tokens.insert(example.tokens.end(), {key, value});
  }
  example.labels.assign(example.tokens.size(), -1);
  std::vector<std::int32_t> asked(keys.begin(), keys.begin() + pairs);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    std::swap(asked[i], asked[i + random.below(asked.size() - i)]);
    example.tokens.push_back(asked[i]);
    example.labels.push_back(values[static_cast<std::size_t>(asked[i] - kSymbols)]);
  }
  return example;
}

}  // namespace

std::int64_t vocab_of(SequenceTask task) {
  if (task == SequenceTask::recall) return kQuestion + 1;
  return task == SequenceTask::copy ? kBlank + 1 : kSymbols + kKeys;
}

std::span<const std::int64_t> extents_of(SequenceTask task) {
  if (task == SequenceTask::recall) return kDistances;
  if (task == SequenceTask::copy) return kLengths;
  return kPairs;
}

SequenceExample draw(SequenceTask task, std::int64_t extent, Random& random) {
  if (task == SequenceTask::recall) {
    return draw_recall(extent, static_cast<std::int64_t>(random.below(kMostBefore + 1)), random);
  }
  return task == SequenceTask::copy ? draw_copy(extent, random) : draw_key_value(extent, random);
}

SequenceExample draw_recall(std::int64_t distance, std::int64_t noise, Random& random) {
  SequenceExample example;
  const auto add_noise = [&](std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      example.tokens.push_back(kSymbols + static_cast<std::int32_t>(random.below(kNoise)));
    }
  };
  add_noise(noise);
  const std::int32_t wanted = symbol(random);
  example.tokens.push_back(wanted);
  add_noise(distance - 1);
  example.tokens.push_back(kQuestion);
  example.labels.assign(example.tokens.size(), -1);
  example.labels.back() = wanted;
  return example;
}

SequenceBatch side_by_side(std::span<const SequenceExample> examples) {
  SequenceBatch batch;
  std::vector<std::int64_t> lengths;
  for (const SequenceExample& example : examples) {
    batch.tokens.insert(batch.tokens.end(), example.tokens.begin(), example.tokens.end());
    batch.labels.insert(batch.labels.end(), example.labels.begin(), example.labels.end());
    lengths.push_back(std::ssize(example.tokens));
  }
  batch.offsets = offsets_of(lengths);
  return batch;
}

SequenceBatch draw_batch(SequenceTask task, std::span<const std::int64_t> extents, std::uint64_t seed) {
  std::vector<SequenceExample> examples;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    Random random(seed, i);
    examples.push_back(draw(task, extents[i], random));
  }
  return side_by_side(examples);
}

SequenceExample SequenceExamples::example(std::int64_t i) const {
  Random random(seed_, static_cast<std::uint64_t>(i));
  const std::int64_t extent = draw_extent(task_, random);
  return draw(task_, extent, random);
}

ExampleSize SequenceExamples::size(std::int64_t i) const {
  const std::int64_t length = std::ssize(example(i).tokens);
  return {.cost = length, .length = length};
}

std::uint32_t SequenceExamples::checksum() const {
  const std::array<std::uint32_t, 4> what{static_cast<std::uint32_t>(task_), static_cast<std::uint32_t>(count_)};
  return philox(what, seed_)[0];
}

SequenceBatch SequenceExamples::collect(std::span<const std::uint32_t> chosen) const {
  std::vector<SequenceExample> examples;
  for (const std::uint32_t number : chosen) examples.push_back(example(number));
  return side_by_side(examples);
}

namespace {

constexpr std::int64_t kFarthest = 128;
constexpr std::size_t kExamples = 16;

}  // namespace

std::map<std::int64_t, double> input_gradients(const SequenceModel& model, std::uint64_t seed) {
  SequenceModel exact(model, Dtype::f64);
  std::map<std::int64_t, double> norms;
  for (std::int64_t distance = 1; distance <= kFarthest; distance *= 2) {
    const std::int64_t noise = kFarthest - distance;
    std::vector<SequenceExample> examples;
    for (std::size_t i = 0; i < kExamples; ++i) {
      Random random(seed, i);
      examples.push_back(draw_recall(distance, noise, random));
      examples.back().labels.back() = (examples.back().labels.back() + 1) % kSymbols;
    }
    const SequenceBatch batch = side_by_side(examples);
    const Tensor gradients = exact.input_gradients(batch);
    double sum = 0;
    for (std::size_t i = 0; i < kExamples; ++i) {
      const std::int64_t row = batch.offsets.data<std::int32_t>()[i] + noise;
      for (std::int64_t d = 0; d < gradients.size(1); ++d) {
        const double gradient = gradients.view().at<double>({row, d});
        sum += gradient * gradient;
      }
    }
    norms[distance] = std::sqrt(sum / kExamples);
  }
  return norms;
}

}  // namespace qkv::comparison
