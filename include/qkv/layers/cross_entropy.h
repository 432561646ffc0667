/// \file
/// Projection of hidden states to classes (the words of a vocabulary) and the label-smoothed cross-entropy of the
/// result, with the gradients of both, in one pass: logits = hidden weight^T + bias exist for 256 rows at a time.
///   loss = (1 - smoothing) * nll[label] + smoothing * mean of nll over the classes,   nll[c] = log-sum-exp - logit[c]
/// as torch.nn.CrossEntropyLoss(label_smoothing, reduction="sum"). Source of the smoothing: Szegedy et al., "Rethinking
/// the Inception architecture for computer vision" (2016).
///
///     LossSum sum = cross_entropy({.weight = embedding.weight().value}, hidden, labels, {.smoothing = 0.1},
///                                 {.hidden = grad_hidden, .weight = embedding.weight().gradient});
///
/// The same bits for any number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "qkv/api.h"
#include "qkv/matmul.h"

namespace qkv {

struct ClassWeights {
  TensorView weight{};  ///< [classes, dim], an embedding's table or a matrix of its own
  TensorView bias{};    ///< [classes]; may be absent
  /// weight^T in full storage, if the caller has it packed; else it is packed for the call.
  const PackedMatrix* projection = nullptr;
};

struct CrossEntropyOptions {
  double smoothing = 0;                    ///< 0 to 1
  std::optional<std::int32_t> excluded{};  ///< is no class: as if its logit were -infinity; smoothing leaves it out
  int threads = 0;                         ///< 0: threads()
};

/// Optional outputs, which are added to: the gradients of scale * loss. What you omit costs nothing.
struct CrossEntropyGradients {
  MutableTensorView hidden{};
  MutableTensorView weight{};
  MutableTensorView bias{};
  double scale = 1;
};

struct LossSum {
  double sum = 0;          ///< of the losses, in nats
  double nll = 0;          ///< the same without label smoothing
  std::int64_t count = 0;  ///< of the losses: one for each label
  double metric = 0;       ///< of a model: the sum of what Trainable::metric_name() says
};

/// hidden [n, dim], f32 or f64 like the weights; labels [n], those below 0 are skipped. std::invalid_argument for
/// anything that does not fit.
QKV_API LossSum cross_entropy(const ClassWeights& classes, const TensorView& hidden,
                              std::span<const std::int32_t> labels, const CrossEntropyOptions& options = {},
                              const CrossEntropyGradients& gradients = {});

}  // namespace qkv
