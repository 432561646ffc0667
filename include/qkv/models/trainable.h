/// \file
/// What a model must be able to do to be trained: list its weights, and give a loss with its gradients for a batch of
/// examples of any kind.
#pragma once

#include <cstdint>
#include <string>

#include "qkv/api.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/parameter.h"

namespace qkv {

class QKV_API Trainable : public Parameterized {
 public:
  /// What the better of two validations has more of: "accuracy", the mean of LossSum::metric. Empty: the lower loss
  /// decides alone.
  virtual std::string metric_name() const { return {}; }
};

template <class Batch>
class TrainableOn : public Trainable {
 public:
  /// Adds the gradients of the sum of the losses. Dropout, if the model has any, is drawn from the seed.
  virtual LossSum backward(const Batch& batch, std::uint64_t dropout_seed) = 0;
  /// The losses as they are measured: without dropout and label smoothing.
  virtual LossSum loss(const Batch& batch) const = 0;
};

}  // namespace qkv
