// What a model must be able to do to be trained on pairs of token sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/layers/parameter.h"
#include "qkv/tensor.h"

namespace qkv {

struct TokenPair {
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> target;
};

// Pairs side by side: tokens one after the other, offsets as in sequences.h.
struct PairBatch {
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> target;
  Tensor source_offsets;
  Tensor target_offsets;
};

struct LossSum {
  double sum = 0;           // of the losses of the target tokens, in nats
  double nll = 0;           // the same without label smoothing
  std::int64_t tokens = 0;  // how many there are
};

class Trainable {
 public:
  virtual ~Trainable() = default;
  virtual void visit(const ParameterVisitor& visitor) const = 0;
  virtual void update(const ParameterUpdater& updater) = 0;
  // Adds the gradients of the sum of the losses. Dropout, if the model has any, is drawn from the seed.
  virtual LossSum backward(const PairBatch& batch, std::uint64_t dropout_seed) = 0;
  // The losses as they are measured: without dropout and label smoothing.
  virtual LossSum loss(const PairBatch& batch) const = 0;
};

}  // namespace qkv
