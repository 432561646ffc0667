// What is counted and measured of every model of a comparison, whatever it does.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "lab/models/dependencies.h"
#include "lab/models/sequence_model.h"
#include "lab/models/translator_model.h"

namespace qkv::comparison {

// Translators have so many tokens on each side.
class Measurable {
 public:
  virtual ~Measurable() = default;

  virtual std::int64_t parameters() const = 0;
  virtual SequenceGraph graph(std::int64_t length) const = 0;
  virtual double operations_at_once(std::int64_t length) const = 0;
  virtual double operations_in_turn(std::int64_t length) const = 0;
  // The most tokens before the last one of a random sequence that a change of a token lies from it and yet changes a
  // bit of the logits of the last output.
  virtual std::int64_t measured_reach(std::int64_t length, std::uint64_t seed) const = 0;

  // Forward and backward over so many sequences, each token a label.
  virtual void train(std::int64_t sequences, std::int64_t length) = 0;
  // Answers so many tokens one by one; returns what is kept of them for the next one.
  virtual std::shared_ptr<void> answer(std::int64_t length) const = 0;
};

// The models must outlive them.
std::unique_ptr<Measurable> measurable(SequenceModel& model);
std::unique_ptr<Measurable> measurable(TranslatorModel& model);

// By distance (1, 2, 4 ... 128), for a model of recall: the norm of the gradient of the loss at the last token with
// respect to the embedding of the symbol that it asks for, the root of the mean square over examples of one length. The
// loss is that of a wrong answer, as that of a right one has no gradient once it is learnt. In f64, since what is left
// of it can be far below the smallest f32.
std::map<std::int64_t, double> input_gradients(const SequenceModel& model, std::uint64_t seed);

}  // namespace qkv::comparison
