// Measurements of sequence models and translators: reach, training and answers.
#include "lab/models/measurable.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "lab/models/sequence_model.h"
#include "lab/models/translator_model.h"
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

// The distance from the end of the first token whose change changes the last row, by the logits of those sequences.
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

// All but the end and the start, which come last.
std::vector<std::int32_t> words(const TranslatorModel& model, std::int64_t count, std::uint64_t seed) {
  return random_tokens(model.config().tokens.end, count, seed);
}

PairBatch pairs(const TranslatorModel& model, std::int64_t count, std::int64_t length) {
  const Tensor offsets = offsets_of_equal(count, length);
  return {.source = words(model, count * length, 1),
          .target = words(model, count * length, 2),
          .source_offsets = offsets,
          .target_offsets = offsets};
}

}  // namespace

std::int64_t parameter_count(const Trainable& model) {
  std::int64_t count = 0;
  model.visit([&](const std::string&, const Parameter& parameter) { count += parameter.value.element_count(); });
  return count;
}

std::int64_t SequenceModel::measured_reach(std::int64_t length, std::uint64_t seed) const {
  const SequenceBatch batch{.tokens = changed_one_by_one(random_tokens(config_.vocab, length, seed), config_.vocab),
                            .offsets = offsets_of_equal(length + 1, length)};
  return reach_in(logits(batch), length);
}

void SequenceModel::train(std::int64_t sequences, std::int64_t length) {
  SequenceBatch batch{.tokens = random_tokens(config_.vocab, sequences * length, 1),
                      .offsets = offsets_of_equal(sequences, length)};
  batch.labels = batch.tokens;
  backward(batch, std::uint64_t{0});
}

std::shared_ptr<void> SequenceModel::answer(std::int64_t length) const {
  const auto reader = std::make_shared<Reader>(*this);
  for (const std::int32_t token : random_tokens(config_.vocab, length, 1)) reader->read(token);
  return reader;
}

std::int64_t TranslatorModel::measured_reach(std::int64_t length, std::uint64_t seed) const {
  PairBatch batch = pairs(*this, length + 1, length);
  batch.source = changed_one_by_one(words(*this, length, seed), config_.tokens.end);
  const std::vector<std::int32_t> same = words(*this, length, seed + 1);
  for (std::int64_t i = 0; i <= length; ++i) std::ranges::copy(same, batch.target.begin() + i * length);
  return reach_in(model_->logits(batch), length);
}

void TranslatorModel::train(std::int64_t sequences, std::int64_t length) {
  backward(pairs(*this, sequences, length), 0);
}

std::shared_ptr<void> TranslatorModel::answer(std::int64_t length) const {
  const std::vector<std::int32_t> source = words(*this, length, 1);
  std::shared_ptr<NextTokens> next = model_->decoder(source, offsets_of_equal(1, length));
  const std::int64_t parent = 0;
  for (const std::int32_t token : words(*this, length, 2)) next->step(std::span(&parent, 1), std::span(&token, 1));
  return next;
}

}  // namespace qkv::comparison
