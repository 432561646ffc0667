// Cross-entropy against the formula in plain loops and finite differences, on every target; excluded classes, targets
// that do not count, huge logits, more rows than a chunk, any threads.
#include "qkv/layers/cross_entropy.h"

#include "attention/attention_testing.h"
#include "jacobian.h"

namespace qkv {
namespace {

struct Problem {
  Tensor hidden, weight, bias;
  std::vector<std::int32_t> targets;

  Problem(std::int64_t rows, std::int64_t classes, std::int64_t dim, Dtype dtype, double spread = 1) {
    Random random(1);
    hidden = testing::normal(random, {rows, dim}, dtype);
    weight = testing::normal(random, {classes, dim}, dtype, spread);
    bias = testing::normal(random, {classes}, dtype, spread);
    for (std::int64_t i = 0; i < rows; ++i) {
      targets.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes))));
      if (targets.back() == 1) targets.back() = i % 2 == 0 ? -100 : 0;
    }
  }
  ClassWeights classes() const { return {.weight = weight, .bias = bias}; }
};

CrossEntropy plain(const Problem& problem, double smoothing, std::int64_t excluded) {
  const std::vector<double> hidden = testing::values(problem.hidden), weight = testing::values(problem.weight);
  const std::vector<double> bias = testing::values(problem.bias);
  const std::size_t dim = static_cast<std::size_t>(problem.hidden.size(1)), classes = bias.size();
  CrossEntropy sum;
  for (std::size_t i = 0; i < problem.targets.size(); ++i) {
    if (problem.targets[i] < 0) continue;
    std::vector<double> logits;
    double most = -testing::kInfinity, total = 0, even = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      logits.push_back(bias[c]);
      for (std::size_t k = 0; k < dim; ++k) logits[c] += hidden[i * dim + k] * weight[c * dim + k];
      if (static_cast<std::int64_t>(c) != excluded) most = std::max(most, logits[c]);
    }
    for (std::size_t c = 0; c < classes; ++c) {
      if (static_cast<std::int64_t>(c) != excluded) total += std::exp(logits[c] - most);
    }
    const double log_sum_exp = most + std::log(total);
    const double count = static_cast<double>(classes) - (excluded >= 0 ? 1 : 0);
    for (std::size_t c = 0; c < classes; ++c) {
      if (static_cast<std::int64_t>(c) != excluded) even += (log_sum_exp - logits[c]) / count;
    }
    const double nll = log_sum_exp - logits[static_cast<std::size_t>(problem.targets[i])];
    sum.nll += nll;
    sum.loss += (1 - smoothing) * nll + smoothing * even;
    ++sum.targets;
  }
  return sum;
}

QKV_ON_EACH_TARGET(CrossEntropyTargets);

TEST_P(CrossEntropyTargets, IsTheFormula) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t classes : {2, 3, 16, 17, 50, 101}) {
      for (const double spread : {1.0, 300.0}) {
        const Problem problem(20, classes, 5, dtype, spread);
        for (const bool excluded : {false, true}) {
          CrossEntropyOptions options{.smoothing = 0.1};
          if (excluded) options.excluded = 1;
          const CrossEntropy given = cross_entropy(problem.classes(), problem.hidden, problem.targets, options);
          const CrossEntropy exact = plain(problem, 0.1, excluded ? 1 : -1);
          // Logits of `spread`, each with some roundings, in 20 losses.
          const double tolerance = 20 * 10 * spread * (dtype == Dtype::f32 ? 6e-8 : 1.1e-16) * 10;
          EXPECT_NEAR(given.loss, exact.loss, tolerance) << classes << " classes";
          EXPECT_NEAR(given.nll, exact.nll, tolerance) << classes << " classes";
          EXPECT_EQ(given.targets, exact.targets);
        }
      }
    }
  }
}

TEST_P(CrossEntropyTargets, Gradients) {
  for (const std::int64_t classes : {2, 9, 19}) {
    Problem problem(6, classes, 3, Dtype::f64);
    for (const bool excluded : {false, true}) {
      CrossEntropyOptions options{.smoothing = 0.2};
      if (excluded) options.excluded = 1;
      Tensor hidden = Tensor::zeros(problem.hidden.shape(), Dtype::f64);
      Tensor weight = Tensor::zeros(problem.weight.shape(), Dtype::f64);
      Tensor bias = Tensor::zeros(problem.bias.shape(), Dtype::f64);
      cross_entropy(problem.classes(), problem.hidden, problem.targets, options,
                    {.hidden = hidden, .weight = weight, .bias = bias, .scale = 3});
      const auto loss = [&] {
        return 3 * cross_entropy(problem.classes(), problem.hidden, problem.targets, options).loss;
      };
      testing::expect_gradient(loss, problem.hidden, hidden, 1e-7);
      testing::expect_gradient(loss, problem.weight, weight, 1e-7);
      testing::expect_gradient(loss, problem.bias, bias, 1e-7);
    }
  }
}

TEST(CrossEntropy, ManyRowsOnAnyThreads) {
  const Problem problem(600, 130, 7, Dtype::f32);
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 3, 7}) {
    std::vector<Tensor> results{Tensor::zeros(problem.hidden.shape()), Tensor::zeros(problem.weight.shape()),
                                Tensor::zeros(problem.bias.shape())};
    const CrossEntropy sum =
        cross_entropy(problem.classes(), problem.hidden, problem.targets, {.smoothing = 0.1, .threads = threads},
                      {.hidden = results[0], .weight = results[1], .bias = results[2]});
    results.push_back(Tensor::of<double>({2}, {sum.loss, sum.nll}));
    if (first.empty()) first = results;
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(testing::same_bits(results[i], first[i])) << threads;
  }
  EXPECT_NEAR(first[3].data<double>()[0], plain(problem, 0.1, -1).loss, 1e-2);
}

TEST(CrossEntropy, APackedProjectionServes) {
  const Problem problem(20, 50, 7, Dtype::f32);
  const PackedMatrix packed(problem.weight.view().transpose(0, 1)), straight(problem.weight);
  const PackedMatrix rounded(problem.weight.view().transpose(0, 1), 1, WeightStorage::bf16);
  ClassWeights classes = problem.classes();
  const double own = cross_entropy(classes, problem.hidden, problem.targets).loss;
  classes.projection = &packed;
  EXPECT_EQ(cross_entropy(classes, problem.hidden, problem.targets).loss, own);
  for (const PackedMatrix* wrong : {&straight, &rounded}) {
    classes.projection = wrong;
    EXPECT_THROW(cross_entropy(classes, problem.hidden, problem.targets), std::invalid_argument);
  }
}

TEST(CrossEntropy, RefusesWhatDoesNotFit) {
  Problem problem(4, 5, 3, Dtype::f32);
  const auto refuses = [&](const CrossEntropyOptions& options, const CrossEntropyGradients& gradients = {}) {
    EXPECT_THROW(cross_entropy(problem.classes(), problem.hidden, problem.targets, options, gradients),
                 std::invalid_argument);
  };
  problem.targets = {0, 2, 3, 4};
  refuses({.smoothing = -0.1});
  refuses({.excluded = 5});
  refuses({.excluded = 2});
  refuses({}, {.hidden = problem.weight});
  problem.targets = {0, 2, 3};
  refuses({});
  problem.targets = {0, 2, 3, 5};
  refuses({});
  problem.targets = {};
  EXPECT_EQ(cross_entropy(problem.classes(), Tensor::zeros({0, 3}), problem.targets).targets, 0);
}

}  // namespace
}  // namespace qkv
