// Adam and AdamW: one step of each parameter.
#include "qkv/train/adam.h"

#include <cmath>
#include <limits>
#include <utility>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "train/elements.h"

namespace qkv {
namespace {

// One step of one element, in the parameter's own type.
template <class T>
struct Move {
  T beta1, beta2, epsilon, weight_decay, keep, scale, step_size, root_correction;

  void operator()(T& value, T& gradient, T& first, T& second) const {
    value *= keep;
    const T g = gradient * scale + weight_decay * value;
    first = beta1 * first + (1 - beta1) * g;
    second = beta2 * second + (1 - beta2) * (g * g);
    value -= step_size * first / (std::sqrt(second) * root_correction + epsilon);
    gradient = 0;
  }
};

}  // namespace

Adam::Adam(const AdamConfig& config) : config_(config) {
  for (const double beta : {config.beta1, config.beta2}) {
    if (!(beta >= 0 && beta < 1)) refuse("adam", "beta is {}; it must be in [0, 1)", beta);
  }
  // It keeps weights without gradients from 0 / 0, in f32 as well.
  constexpr double kLeast = std::numeric_limits<float>::min();
  if (!(config.epsilon >= kLeast)) {
    refuse("adam", "epsilon is {}; it must be at least {:.2g}, the smallest normal number of f32", config.epsilon,
           kLeast);
  }
  if (!(config.weight_decay >= 0)) {
    refuse("adam", "weight_decay is {}; it must be 0 or more", config.weight_decay);
  }
}

void Adam::begin_step(double rate, double scale) {
  ++steps_;
  rate_ = rate;
  scale_ = scale;
}

void Adam::step(const std::string& name, Parameter& parameter) {
  if (!parameter.has_gradient()) return;
  const auto run = [&]<class T>(T) {
    Moments& moments = moments_[name];
    if (moments.first.shape() != parameter.value.shape()) {
      moments.first = Tensor::zeros(parameter.value.shape(), parameter.value.dtype());
      moments.second = moments.first;
    }
    const bool decoupled = config_.decay == WeightDecay::decoupled;
    const double steps = static_cast<double>(steps_);
    const Move<T> move{.beta1 = static_cast<T>(config_.beta1),
                       .beta2 = static_cast<T>(config_.beta2),
                       .epsilon = static_cast<T>(config_.epsilon),
                       .weight_decay = static_cast<T>(decoupled ? 0 : config_.weight_decay),
                       .keep = static_cast<T>(decoupled ? 1 - rate_ * config_.weight_decay : 1),
                       .scale = static_cast<T>(scale_),
                       .step_size = static_cast<T>(rate_ / (1 - pow(config_.beta1, steps))),
                       .root_correction = static_cast<T>(1 / std::sqrt(1 - pow(config_.beta2, steps)))};
    T *value = parameter.value.data<T>(), *gradient = parameter.gradient.data<T>();
    T *first = moments.first.data<T>(), *second = moments.second.data<T>();
    training::for_each_block(parameter.value.element_count(), [&](std::int64_t begin, std::int64_t end, std::int64_t) {
      for (std::int64_t i = begin; i < end; ++i) move(value[i], gradient[i], first[i], second[i]);
    });
  };
  visit_f32_f64(parameter.value.dtype(), run);
}

void Adam::restore(std::int64_t steps, std::map<std::string, Moments> moments) {
  steps_ = steps;
  moments_ = std::move(moments);
}

}  // namespace qkv
