// Over all rows of a batch, channel by channel, as torch.nn.BatchNorm1d and BatchNorm2d with channels last:
//   y = (x - mean) / sqrt(variance + epsilon) * weight + bias
// In training mean and (biased) variance are those of the rows given, and move the running ones:
//   running = (1 - momentum) * running + momentum * own,   the variance as sum of squares / (rows - 1).
// Otherwise they are the running ones. Of a padded batch the padding counts; ragged rows have none. Source: Ioffe,
// Szegedy, "Batch normalization" (2015).
//
//   BatchNorm norm({.dim = 16}, weights, "bn1.");
//   Tensor y = norm.forward(x);                               // with the running statistics
//   BatchNormSaved saved;
//   Tensor z = norm.forward(x, saved);                        // training
#pragma once

#include <cstdint>
#include <string>

#include "qkv/layers/parameter.h"
#include "qkv/layers/weights.h"

namespace qkv {

struct BatchNormConfig {
  std::int64_t dim = 0;
  double epsilon = 1e-5;
  double momentum = 0.1;  // 0 to 1: what the newest batch weighs
};

// What backward needs of a forward pass in training.
struct BatchNormSaved {
  Tensor mean, inverse_deviation;  // f64 [dim]; the latter 1 / sqrt(variance + epsilon)
};

// Safe for concurrent forward() without `saved`.
class BatchNorm {
 public:
  // Takes weight, bias, running_mean and running_var, all [dim]; num_batches_tracked is dropped.
  BatchNorm(const BatchNormConfig& config, Weights& weights, const std::string& scope = "");

  // x [..., dim] -> the same shape. The result of a row does not depend on others.
  Tensor forward(const TensorView& x, int threads = 0) const;
  // The same for training: rows are summed in one order on any number of threads. std::invalid_argument for fewer than
  // two rows.
  Tensor forward(const TensorView& x, BatchNormSaved& saved, int threads = 0);

  // From the input of forward and the gradient of its output: adds to the gradients of the parameters that want them,
  // and to grad_x, row-major of x's shape, if it is given. The first is that of forward without `saved`.
  void backward(const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x = {}, int threads = 0);
  void backward(const TensorView& x, const BatchNormSaved& saved, const TensorView& grad_out,
                const MutableTensorView& grad_x = {}, int threads = 0);

  // With the running statistics, of which no gradient is kept.
  void visit(const ParameterVisitor& visitor, const std::string& scope = "") const;
  void update(const ParameterUpdater& updater, const std::string& scope = "");

 private:
  enum class Statistics { running, own };

  BatchNormSaved running() const;
  Tensor normalize(const TensorView& x, const BatchNormSaved& statistics, int threads) const;
  void run_backward(const TensorView& x, const BatchNormSaved& saved, Statistics statistics, const TensorView& grad_out,
                    const MutableTensorView& grad_x, int threads);

  BatchNormConfig config_;
  Parameter weight_, bias_, running_mean_, running_var_;
};

}  // namespace qkv
