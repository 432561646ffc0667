/// \file
/// Examples to train on or to validate with, of any kind: the loop knows their number and sizes, the model their
/// batches.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "qkv/api.h"
#include "qkv/models/token_pairs.h"

namespace qkv {

struct ExampleSize {
  std::int64_t cost = 1;    ///< of the batch_tokens that a batch may have (training.h)
  std::int64_t length = 0;  ///< examples of like length share a batch
};

class QKV_API ExampleSet {
 public:
  virtual ~ExampleSet() = default;
  virtual std::string kind() const { return "examples"; }  // in messages
  virtual std::int64_t count() const = 0;
  virtual ExampleSize size(std::int64_t i) const = 0;
  /// Of all that the weights depend on: a training resumes with the same examples alone.
  virtual std::uint32_t checksum() const = 0;
  /// Of the text that the losses of all examples are of; 0: of no text.
  virtual std::int64_t bytes() const { return 0; }
};

template <class Batch>
class Examples : public ExampleSet {
 public:
  /// Those of these numbers, in this order.
  virtual Batch collect(std::span<const std::uint32_t> chosen) const = 0;
};

/// Pairs of token sequences. A pair costs the tokens of both sides; its length is that of the target side.
class QKV_API PairExamples : public Examples<PairBatch> {
 public:
  /// Refers to the pairs. std::invalid_argument if a side is empty.
  explicit PairExamples(std::span<const TokenPair> pairs);

  std::string kind() const override { return "pairs"; }
  std::int64_t count() const override { return static_cast<std::int64_t>(pairs_.size()); }
  ExampleSize size(std::int64_t i) const override;
  std::uint32_t checksum() const override;
  PairBatch collect(std::span<const std::uint32_t> chosen) const override;

 private:
  std::span<const TokenPair> pairs_;
};

}  // namespace qkv
