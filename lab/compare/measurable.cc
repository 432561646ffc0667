// What is measured of sequence models and of translators, and the gradients that reach inputs.
#include "lab/compare/measurable.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "lab/compare/sequence_tasks.h"
#include "qkv/random.h"

namespace qkv::comparison {
namespace {

// Below `vocab`; the same for the same seed.
std::vector<std::int32_t> random_tokens(std::int64_t vocab, std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) {
    token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab)));
  }
  return tokens;
}

Tensor offsets_of_equal(std::int64_t sequences, std::int64_t length) {
  return offsets_of(std::vector<std::int64_t>(static_cast<std::size_t>(sequences), length));
}

// A sequence as it is, then with each of its tokens changed into the next one.
std::vector<std::int32_t> changed_one_by_one(const std::vector<std::int32_t>& tokens, std::int64_t vocab) {
  std::vector<std::int32_t> all = tokens;
  for (std::size_t changed = 0; changed < tokens.size(); ++changed) {
    all.insert(all.end(), tokens.begin(), tokens.end());
    std::int32_t& token = all[(changed + 1) * tokens.size() + changed];
    token = (token + 1) % static_cast<std::int32_t>(vocab);
  }
  return all;
}

// From the logits of those sequences: how far from the end the first token lies whose change changes the last row.
std::int64_t reach_in(const Tensor& logits, std::int64_t length) {
  const auto bytes = static_cast<std::size_t>(logits.size(1)) * size_of(logits.dtype());
  const auto last = [&](std::int64_t sequence) {
    return logits.view().bytes() + static_cast<std::size_t>((sequence + 1) * length - 1) * bytes;
  };
  for (std::int64_t changed = 0; changed < length; ++changed) {
    if (std::memcmp(last(0), last(1 + changed), bytes) != 0) return length - 1 - changed;
  }
  return 0;
}

// What a model says of itself.
template <class Model>
class MeasurableOf : public Measurable {
 public:
  explicit MeasurableOf(Model& model) : model_(model) {}

  std::int64_t parameters() const override { return parameter_count(model_); }
  SequenceGraph graph(std::int64_t length) const override { return model_.graph(length); }
  double operations_at_once(std::int64_t length) const override { return model_.operations_at_once(length); }
  double operations_in_turn(std::int64_t length) const override { return model_.operations_in_turn(length); }

 protected:
  Model& model_;
};

class MeasurableReader : public MeasurableOf<SequenceModel> {
 public:
  using MeasurableOf::MeasurableOf;

  std::int64_t measured_reach(std::int64_t length, std::uint64_t seed) const override {
    const SequenceBatch batch{.tokens = changed_one_by_one(random_tokens(vocab(), length, seed), vocab()),
                              .offsets = offsets_of_equal(length + 1, length)};
    return reach_in(model_.logits(batch), length);
  }

  void train(std::int64_t sequences, std::int64_t length) override {
    SequenceBatch batch{.tokens = random_tokens(vocab(), sequences * length, 1),
                        .offsets = offsets_of_equal(sequences, length)};
    batch.labels = batch.tokens;
    model_.backward(batch, 0);
  }
  std::shared_ptr<void> answer(std::int64_t length) const override {
    const auto reader = std::make_shared<SequenceModel::Reader>(model_);
    for (const std::int32_t token : random_tokens(vocab(), length, 1)) reader->read(token);
    return reader;
  }

 private:
  std::int64_t vocab() const { return model_.config().vocab; }
};

class MeasurableTranslator : public MeasurableOf<TranslatorModel> {
 public:
  using MeasurableOf::MeasurableOf;

  std::int64_t measured_reach(std::int64_t length, std::uint64_t seed) const override {
    PairBatch batch = pairs(length + 1, length);
    batch.source = changed_one_by_one(words(length, seed), vocab());
    for (std::int64_t i = 0; i <= length; ++i) {
      const std::vector<std::int32_t> same = words(length, seed + 1);
      std::copy(same.begin(), same.end(), batch.target.begin() + i * length);
    }
    return reach_in(model_.model().logits(batch), length);
  }

  void train(std::int64_t sequences, std::int64_t length) override { model_.backward(pairs(sequences, length), 0); }
  std::shared_ptr<void> answer(std::int64_t length) const override {
    const std::vector<std::int32_t> source = words(length, 1);
    const Tensor offsets = offsets_of_equal(1, length);
    std::shared_ptr<NextTokens> next = model_.model().decoder(source, offsets);
    const std::int64_t parent = 0;
    for (const std::int32_t token : words(length, 2)) next->step(std::span(&parent, 1), std::span(&token, 1));
    return next;
  }

 private:
  // All but the end and the start, which come last.
  std::int64_t vocab() const { return model_.config().tokens.end; }
  std::vector<std::int32_t> words(std::int64_t count, std::uint64_t seed) const {
    return random_tokens(vocab(), count, seed);
  }
  PairBatch pairs(std::int64_t count, std::int64_t length) const {
    const Tensor offsets = offsets_of_equal(count, length);
    return {.source = words(count * length, 1),
            .target = words(count * length, 2),
            .source_offsets = offsets,
            .target_offsets = offsets};
  }
};

}  // namespace

std::unique_ptr<Measurable> measurable(SequenceModel& model) { return std::make_unique<MeasurableReader>(model); }
std::unique_ptr<Measurable> measurable(TranslatorModel& model) { return std::make_unique<MeasurableTranslator>(model); }

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
