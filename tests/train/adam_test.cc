// Adam and AdamW against their formulas in double precision, and against PyTorch's own steps.
#include "qkv/train/adam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "qkv/random.h"

namespace qkv {
namespace {

Parameter parameter(std::int64_t count, Dtype dtype, Random& random) {
  Tensor value = Tensor::uninitialized({count}, Dtype::f64);
  for (std::int64_t i = 0; i < count; ++i) value.data<double>()[i] = random.normal();
  Parameter own{.value = convert(value, dtype)};
  own.want_gradient();
  return own;
}

void set_gradient(Parameter& own, std::span<const double> values) {
  convert(Tensor::of({own.value.element_count()}, std::vector<double>(values.begin(), values.end())), own.gradient);
}

std::vector<double> values(const Parameter& own) {
  const Tensor exact = convert(own.value, Dtype::f64);
  return {exact.data<double>(), exact.data<double>() + exact.element_count()};
}

// One element as the paper has it.
struct Reference {
  AdamConfig config;
  double w, m = 0, v = 0;
  int steps = 0;

  void step(double rate, double g) {
    ++steps;
    if (config.decay == WeightDecay::decoupled) w -= rate * config.weight_decay * w;
    if (config.decay == WeightDecay::in_gradient) g += config.weight_decay * w;
    m = config.beta1 * m + (1 - config.beta1) * g;
    v = config.beta2 * v + (1 - config.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(config.beta1, steps)), v_hat = v / (1 - std::pow(config.beta2, steps));
    w -= rate * m_hat / (std::sqrt(v_hat) + config.epsilon);
  }
};

TEST(Adam, FollowsItsFormulas) {
  constexpr std::int64_t kCount = 40000;  // several blocks
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const WeightDecay decay : {WeightDecay::in_gradient, WeightDecay::decoupled}) {
      const AdamConfig config{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1, .decay = decay};
      Random random(1);
      Parameter own = parameter(kCount, dtype, random);
      std::vector<Reference> expected;
      for (const double w : values(own)) expected.push_back({config, w});
      Adam adam(config);
      for (int step = 0; step < 4; ++step) {
        std::vector<double> gradient(kCount);
        for (double& g : gradient) g = random.normal();
        set_gradient(own, gradient);
        const double rate = 0.1 / (step + 1);
        adam.begin_step(rate, 0.5);
        adam.step("w", own);
        for (std::size_t i = 0; i < gradient.size(); ++i) expected[i].step(rate, 0.5 * gradient[i]);
      }
      const double tolerance = dtype == Dtype::f32 ? 2e-6 : 1e-14;  // some ten roundings of numbers about 1
      const std::vector<double> actual = values(own);
      for (std::size_t i = 0; i < actual.size(); i += 997) EXPECT_NEAR(actual[i], expected[i].w, tolerance) << i;
      EXPECT_EQ(own.gradient.dtype(), dtype);
      EXPECT_EQ(convert(own.gradient, Dtype::f64).data<double>()[kCount - 1], 0);
      EXPECT_EQ(adam.steps(), 4);
    }
  }
}

TEST(Adam, LeavesAloneWhatHasNoGradient) {
  Parameter own{.value = Tensor::of<float>({2}, {1, 2})};
  Adam adam({});
  adam.begin_step(0.1);
  adam.step("w", own);
  EXPECT_EQ(own.value.data<float>()[0], 1);
  EXPECT_TRUE(adam.moments().empty());
}

TEST(Adam, GoesOnFromASavedState) {
  Random random(2);
  Parameter first = parameter(10, Dtype::f32, random), second = first;
  Adam whole({}), before({}), after({});
  for (int step = 0; step < 6; ++step) {
    std::vector<double> gradient(10);
    for (double& g : gradient) g = random.normal();
    set_gradient(first, gradient);
    set_gradient(second, gradient);
    if (step == 3) after.restore(before.steps(), before.moments());
    Adam& part = step < 3 ? before : after;
    for (Adam* adam : {&whole, &part}) adam->begin_step(0.1);
    whole.step("w", first);
    part.step("w", second);
  }
  EXPECT_EQ(values(first), values(second));
}

TEST(Adam, RefusesWhatCannotBeMeant) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const AdamConfig& config :
       {AdamConfig{.beta1 = 1}, AdamConfig{.beta2 = -0.1}, AdamConfig{.beta1 = nan}, AdamConfig{.epsilon = 0},
        AdamConfig{.epsilon = nan}, AdamConfig{.weight_decay = -1}, AdamConfig{.weight_decay = nan}}) {
    EXPECT_THROW(Adam{config}, std::invalid_argument);
  }
}

}  // namespace
}  // namespace qkv
