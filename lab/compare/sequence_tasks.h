// Tasks for sequence models, drawn by a seed: how far back something is remembered, and how much.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lab/models/sequence_model.h"
#include "qkv/random.h"
#include "qkv/train/examples.h"

namespace qkv::comparison {

// `extent` makes each task harder. Symbols are 0 to 9, so that a guess is right once in ten.
//   recall     some noise, a symbol, extent - 1 tokens of noise, a question: which symbol was it?
//   copy       `extent` symbols and a mark, which asks for the first of them; then blanks ask for the others
//   key_value  `extent` pairs of a key and a symbol; then the keys again, in another order, each asking for its symbol
enum class SequenceTask { recall, copy, key_value };

inline constexpr std::int32_t kSymbols = 10;

struct SequenceExample {
  std::vector<std::int32_t> tokens{};
  std::vector<std::int32_t> labels{};  // below 0 where nothing is asked
};

std::int64_t vocab_of(SequenceTask task);
// The extents that are measured; training draws from 1 to the last of them.
std::span<const std::int64_t> extents_of(SequenceTask task);
SequenceExample draw(SequenceTask task, std::int64_t extent, Random& random);
// An example of recall, with so many tokens of noise before the symbol.
SequenceExample draw_recall(std::int64_t distance, std::int64_t noise, Random& random);
SequenceBatch side_by_side(std::span<const SequenceExample> examples);
// Examples of these extents, side by side.
SequenceBatch draw_batch(SequenceTask task, std::span<const std::int64_t> extents, std::uint64_t seed);

// Examples to train on, each drawn when it is wanted.
class SequenceExamples : public Examples<SequenceBatch> {
 public:
  SequenceExamples(SequenceTask task, std::uint64_t seed, std::int64_t count)
      : task_(task), seed_(seed), count_(count) {}

  std::int64_t count() const override { return count_; }
  ExampleSize size(std::int64_t i) const override;
  std::uint32_t checksum() const override;
  SequenceBatch collect(std::span<const std::uint32_t> chosen) const override;

 private:
  SequenceExample example(std::int64_t i) const;

  SequenceTask task_;
  std::uint64_t seed_;
  std::int64_t count_;
};

// By distance (1, 2, 4 ... 128), for a model of recall: the norm of the gradient of the loss at the last token with
// respect to the embedding of the symbol that it asks for, the root of the mean square over examples of one length. The
// loss is that of a wrong answer, as that of a right one has no gradient once it is learnt. In f64, since what is left
// of it can be far below the smallest f32.
std::map<std::int64_t, double> input_gradients(const SequenceModel& model, std::uint64_t seed);

}  // namespace qkv::comparison
