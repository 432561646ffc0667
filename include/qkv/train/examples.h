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
  /// Checksum of everything that the weights depend on: training resumes only with the same examples.
  virtual std::uint32_t checksum() const = 0;
  /// Bytes of the text that the losses cover; 0: no text.
  virtual std::int64_t bytes() const { return 0; }
};

template <class Batch>
class Examples : public ExampleSet {
 public:
  /// The examples of these numbers, in this order.
  virtual Batch collect(std::span<const std::uint32_t> chosen) const = 0;
};

/// Pairs of token sequences. A pair costs the tokens of both sides; its length is the target side's.
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
