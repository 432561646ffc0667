// Cross-entropy against the formula in plain loops and finite differences, on every target; excluded classes, labels
// that do not count, huge logits, more rows than a chunk, any threads.
#include "qkv/layers/cross_entropy.h"

#include "layers/asked_layer.h"
#include "stop_for_test.h"

namespace qkv::testing {
namespace {

struct Problem {
  Tensor hidden, weight, bias;
  std::vector<std::int32_t> labels;

  // No label is class 1, so that it can be excluded.
  Problem(std::int64_t rows, std::int64_t classes, std::int64_t dim, Dtype dtype, double spread = 1) {
    Random random(1);
    hidden = normal(random, {rows, dim}, dtype);
    weight = normal(random, {classes, dim}, dtype, spread);
    bias = normal(random, {classes}, dtype, spread);
    for (std::int64_t i = 0; i < rows; ++i) {
      labels.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes))));
      if (labels.back() == 1) labels.back() = i % 2 == 0 ? -100 : 0;
    }
  }
  LossSum run(const CrossEntropyOptions& options = {}, const CrossEntropyGradients& gradients = {},
              const PackedMatrix* projection = nullptr) const {
    return cross_entropy({.weight = weight, .bias = bias, .projection = projection}, hidden, labels, options,
                         gradients);
  }
  std::vector<Tensor> zeros() const { return zeros_like({hidden, weight, bias}); }
};

LossSum plain_loss(const Problem& problem, double smoothing, std::optional<std::int64_t> excluded = {}) {
  const std::vector<double> hidden = values(problem.hidden), weight = values(problem.weight);
  const std::vector<double> bias = values(problem.bias);
  const std::size_t dim = static_cast<std::size_t>(problem.hidden.size(1)), classes = bias.size();
  LossSum sum;
  for (std::size_t i = 0; i < problem.labels.size(); ++i) {
    if (problem.labels[i] < 0) continue;
    std::vector<double> logits, counted;
    for (std::size_t c = 0; c < classes; ++c) {
      logits.push_back(bias[c]);
      for (std::size_t k = 0; k < dim; ++k) logits[c] += hidden[i * dim + k] * weight[c * dim + k];
      if (!excluded || c != static_cast<std::size_t>(*excluded)) counted.push_back(logits[c]);
    }
    const double most = std::ranges::max(counted);
    double total = 0, even = 0;
    for (const double logit : counted) total += std::exp(logit - most);
    const double log_sum_exp = most + std::log(total);
    for (const double logit : counted) even += (log_sum_exp - logit) / static_cast<double>(counted.size());
    const double nll = log_sum_exp - logits[static_cast<std::size_t>(problem.labels[i])];
    sum.nll += nll;
    sum.sum += (1 - smoothing) * nll + smoothing * even;
    ++sum.count;
  }
  return sum;
}

QKV_ON_EACH_TARGET(CrossEntropyTargets);

TEST_P(CrossEntropyTargets, IsTheFormula) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t classes : {2, 3, 16, 17, 50, 101}) {
      for (const double spread : {1.0, 300.0}) {
        const Problem problem(20, classes, 5, dtype, spread);
        for (const std::optional<std::int64_t> excluded : {std::optional<std::int64_t>(), {1}}) {
          const LossSum given = problem.run({.smoothing = 0.1, .excluded = excluded});
          const LossSum exact = plain_loss(problem, 0.1, excluded);
          // Logits of `spread`, each with some roundings, in 20 losses.
          const double tolerance = 20 * 10 * spread * (dtype == Dtype::f32 ? 6e-8 : 1.1e-16) * 10;
          EXPECT_NEAR(given.sum, exact.sum, tolerance) << classes << " classes";
          EXPECT_NEAR(given.nll, exact.nll, tolerance) << classes << " classes";
          EXPECT_EQ(given.count, exact.count);
        }
      }
    }
  }
}

TEST_P(CrossEntropyTargets, Gradients) {
  for (const std::int64_t classes : {2, 9, 19}) {
    Problem problem(6, classes, 3, Dtype::f64);
    for (const std::optional<std::int64_t> excluded : {std::optional<std::int64_t>(), {1}}) {
      const CrossEntropyOptions options{.smoothing = 0.2, .excluded = excluded};
      std::vector<Tensor> to = problem.zeros();
      problem.run(options, {.hidden = to[0], .weight = to[1], .bias = to[2], .scale = 3});
      const auto loss = [&] { return 3 * problem.run(options).sum; };
      expect_gradient(loss, problem.hidden, to[0], 1e-7);
      expect_gradient(loss, problem.weight, to[1], 1e-7);
      expect_gradient(loss, problem.bias, to[2], 1e-7);
    }
  }
}

TEST(CrossEntropy, ManyRowsOnAnyThreads) {
  const Problem problem(600, 130, 7, Dtype::f32);
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 3, 7}) {
    std::vector<Tensor> results = problem.zeros();
    const LossSum sum = problem.run({.smoothing = 0.1, .threads = threads},
                                    {.hidden = results[0], .weight = results[1], .bias = results[2]});
    results.push_back(Tensor::of<double>({2}, {sum.sum, sum.nll}));
    if (first.empty()) first = results;
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(same_bits(results[i], first[i])) << threads;
  }
  EXPECT_NEAR(first[3].data<double>()[0], plain_loss(problem, 0.1).sum, 1e-2);
}

TEST(CrossEntropy, TheGradientOfTheBiasMayHaveAStride) {
  const Problem problem(5, 130, 7, Dtype::f32);
  Tensor plain = problem.zeros()[2], wide = Tensor::zeros({130, 2});
  problem.run({}, {.bias = plain});
  problem.run({}, {.bias = wide.view().select(1, 1)});
  EXPECT_TRUE(same_bits(Tensor::copy(wide.view().select(1, 1)), plain));
  EXPECT_TRUE(same_bits(Tensor::copy(wide.view().select(1, 0)), Tensor::zeros({130})));
}

TEST(CrossEntropy, EndsWhereItIsAskedTo) {
  const Problem problem(2000, 500, 96, Dtype::f32);
  std::vector<Tensor> to = problem.zeros();
  test::expect_stops([&] { problem.run({.threads = 1}, {.hidden = to[0], .weight = to[1]}); }, 3 * 2000.0 * 500 * 96);
}

TEST(CrossEntropy, APackedProjectionServes) {
  const Problem problem(20, 50, 7, Dtype::f32);
  const PackedMatrix packed(problem.weight.view().transpose(0, 1)), straight(problem.weight);
  const PackedMatrix rounded(problem.weight.view().transpose(0, 1), 1, WeightStorage::bf16);
  EXPECT_EQ(problem.run({}, {}, &packed).sum, problem.run().sum);
  EXPECT_THROW(problem.run({}, {}, &straight), std::invalid_argument);
  EXPECT_THROW(problem.run({}, {}, &rounded), std::invalid_argument);
}

TEST(CrossEntropy, RefusesWhatDoesNotFit) {
  Problem problem(4, 5, 3, Dtype::f32);
  problem.labels = {0, 2, 3, 4};
  EXPECT_THROW(problem.run({.smoothing = -0.1}), std::invalid_argument);
  EXPECT_THROW(problem.run({.excluded = 5}), std::invalid_argument);
  EXPECT_THROW(problem.run({.excluded = 2}), std::invalid_argument);
  EXPECT_THROW(problem.run({}, {.hidden = problem.weight}), std::invalid_argument);
  for (const std::vector<std::int32_t>& labels : {std::vector<std::int32_t>{0, 2, 3}, {0, 2, 3, 5}}) {
    problem.labels = labels;
    EXPECT_THROW(problem.run(), std::invalid_argument);
  }
  problem.labels = {};
  problem.hidden = Tensor::zeros({0, 3});
  EXPECT_EQ(problem.run().count, 0);
}

}  // namespace
}  // namespace qkv::testing
