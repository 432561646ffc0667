/// \file
/// Adam and AdamW, as torch.optim has them: with g the gradient of step t,
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
///   w = w - rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
/// Sources: Kingma, Ba, "Adam" (2014); Loshchilov, Hutter, "Decoupled weight decay regularization" (2017).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "qkv/api.h"
#include "qkv/layers/parameter.h"

namespace qkv {

enum class WeightDecay {
  in_gradient,  ///< Adam: weight_decay * w is added to g
  decoupled,    ///< AdamW: w shrinks by rate * weight_decay * w first
};

struct AdamConfig {
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-9;
  double weight_decay = 0;
  WeightDecay decay = WeightDecay::in_gradient;
};

class QKV_API Adam {
 public:
  /// std::invalid_argument unless 0 <= beta < 1, epsilon > 0 and weight_decay >= 0.
  explicit Adam(const AdamConfig& config);

  /// Begins the next step: every gradient is multiplied by `scale` before use.
  void begin_step(double rate, double scale = 1);
  /// Moves one parameter, and makes its gradient zero. Nothing happens without a gradient.
  void step(const std::string& name, Parameter& parameter);

  /// m and v of each parameter that was moved, of the parameters' shape and type.
  struct Moments {
    Tensor first, second;
  };
  std::int64_t steps() const { return steps_; }
  const std::map<std::string, Moments>& moments() const { return moments_; }
  /// Goes on from a state that was saved.
  void restore(std::int64_t steps, std::map<std::string, Moments> moments);

 private:
  AdamConfig config_;
  std::int64_t steps_ = 0;
  double rate_ = 0, scale_ = 1;
  std::map<std::string, Moments> moments_;
};

}  // namespace qkv
