// Counts and measurements of every model of a comparison.
#pragma once

#include <cstdint>
#include <memory>

#include "lab/models/dependencies.h"
#include "qkv/models/trainable.h"

namespace qkv::comparison {

// The number of all parameters.
std::int64_t parameter_count(const Trainable& model);

// Translators have so many tokens on each side.
class Measurable {
 public:
  virtual ~Measurable() = default;

  virtual std::int64_t parameters() const = 0;
  virtual SequenceGraph graph(std::int64_t length) const = 0;
  // Multiplications and additions of the products: of a token of a sequence of this length that is read at once, mean;
  // and of one that is read after so many others.
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

}  // namespace qkv::comparison
