// Adam and AdamW against their formulas in double precision; learning rates by hand; the norm of gradients against a
// plain sum.
#include "qkv/train/adam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "io/files_for_test.h"
#include "qkv/random.h"
#include "qkv/threads.h"
#include "qkv/train/schedule.h"
#include "train/gradient_norm.h"
#include "train/tiny_model.h"

namespace qkv {
namespace {

std::vector<double> normal_numbers(std::int64_t count, Random& random) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  for (double& number : numbers) number = random.normal();
  return numbers;
}

Parameter parameter(std::int64_t count, Dtype dtype, Random& random) {
  Parameter own{.value = convert(Tensor::of({count}, normal_numbers(count, random)), dtype)};
  own.want_gradient();
  return own;
}

void set_gradient(Parameter& own, const std::vector<double>& values) {
  convert(Tensor::of({own.value.element_count()}, values), own.gradient);
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
      for (const double w : test::values_of(own.value)) expected.push_back({config, w});
      Adam adam(config);
      for (int step = 0; step < 4; ++step) {
        const std::vector<double> gradient = normal_numbers(kCount, random);
        set_gradient(own, gradient);
        const double rate = 0.1 / (step + 1);
        adam.begin_step(rate, 0.5);
        adam.step("w", own);
        for (std::size_t i = 0; i < gradient.size(); ++i) expected[i].step(rate, 0.5 * gradient[i]);
      }
      const double tolerance = dtype == Dtype::f32 ? 2e-6 : 1e-14;  // some ten roundings of numbers about 1
      const std::vector<double> actual = test::values_of(own.value);
      for (std::size_t i = 0; i < actual.size(); i += 997) EXPECT_NEAR(actual[i], expected[i].w, tolerance) << i;
      test::expect_equal(own.gradient, Tensor::zeros({kCount}, dtype));
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

TEST(Adam, RefusesWhatCannotBeMeant) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const AdamConfig& config :
       {AdamConfig{.beta1 = 1}, AdamConfig{.beta2 = -0.1}, AdamConfig{.beta1 = nan}, AdamConfig{.epsilon = 0},
        AdamConfig{.epsilon = nan}, AdamConfig{.weight_decay = -1}, AdamConfig{.weight_decay = nan}}) {
    EXPECT_THROW(Adam{config}, std::invalid_argument);
  }
}

TEST(Schedule, RisesAndFalls) {
  const ScheduleConfig root{.rate = 0.8, .warmup = 4}, cosine{.rate = 0.8, .warmup = 4, .decay = Decay::cosine};
  struct Row {
    ScheduleConfig config;
    std::int64_t step, steps;
    double rate;
  };
  for (const auto& [config, step, steps, rate] : {Row{root, 1, 100, 0.2},
                                                  {root, 3, 100, 0.6},
                                                  {root, 4, 100, 0.8},
                                                  {root, 16, 100, 0.4},
                                                  {root, 100, 100, 0.16},
                                                  {cosine, 1, 100, 0.2},
                                                  {cosine, 3, 100, 0.6},
                                                  {cosine, 4, 100, 0.8},
                                                  {cosine, 8, 16, 0.6},   // a third of the way: cos(60 degrees) = 1/2
                                                  {cosine, 10, 16, 0.4},  // half of it
                                                  {{.rate = 0.8, .warmup = 0}, 1, 100, 0.8},
                                                  {{.rate = 0.8, .warmup = 0}, 4, 100, 0.4}}) {
    EXPECT_DOUBLE_EQ(learning_rate(config, step, steps), rate) << step << " of " << steps;
  }
  EXPECT_NEAR(learning_rate(cosine, 16, 16), 0, 1e-16);
}

// Of a model with such gradients; none: not wanted.
double norm_of(const Tensor& one, const Tensor& other = {}) {
  test::TinyModel model;
  model.update([&](const std::string& name, Parameter& own) { own.gradient = name == "table" ? one : other; });
  return training::gradient_norm(model);
}

TEST(GradientNorm, IsThatOfAllTogether) {
  EXPECT_EQ(norm_of(Tensor::of<float>({2}, {3, 0}), Tensor::of<double>({1, 1}, {-4})), 5);
  EXPECT_EQ(norm_of({}), 0);
  // Summed in double: in f32, 2^24 + 1 is 2^24, and the ones after the first would be lost.
  std::vector<float> gradient(10'001, 1);
  gradient[0] = 4096;
  EXPECT_DOUBLE_EQ(norm_of(Tensor::of({10'001}, gradient)), std::sqrt(16'777'216.0 + 10'000));
}

TEST(GradientNorm, HasTheSameBitsForAnyNumberOfThreads) {
  Random random(1);
  const Tensor gradient = convert(Tensor::of({100'003}, normal_numbers(100'003, random)), Dtype::f32);
  set_threads(1);
  const double alone = norm_of(gradient);
  EXPECT_NEAR(alone, std::sqrt(100'003.0), 1);
  for (const int threads : {2, 3, 7}) {
    set_threads(threads);
    EXPECT_EQ(norm_of(gradient), alone);
  }
  set_threads(0);
}

}  // namespace
}  // namespace qkv
