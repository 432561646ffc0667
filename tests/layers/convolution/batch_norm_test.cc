// BatchNorm against plain loops in double: training, running statistics, gradients through both; threads, refusals.
#include "qkv/layers/batch_norm.h"

#include "attention/attention_testing.h"
#include "jacobian.h"
#include "qkv/layers/initial_weights.h"

namespace qkv {
namespace {

using testing::normal;
using testing::same_bits;
using testing::values;

BatchNorm random_norm(const BatchNormConfig& config, Dtype dtype) {
  Random random(1);
  Tensor variance = normal(random, {config.dim}, Dtype::f64);
  for (std::int64_t c = 0; c < config.dim; ++c) variance.data<double>()[c] = 0.5 + std::abs(variance.data<double>()[c]);
  Weights weights({{"weight", normal(random, {config.dim}, dtype)},
                   {"bias", normal(random, {config.dim}, dtype)},
                   {"running_mean", normal(random, {config.dim}, dtype)},
                   {"running_var", variance},
                   {"num_batches_tracked", Tensor::zeros({}, Dtype::i64)}},
                  "test", dtype);
  BatchNorm norm(config, weights);
  weights.expect_empty();
  testing::want_gradients(norm);
  return norm;
}

std::map<std::string, std::vector<double>> parameters(const BatchNorm& norm) {
  std::map<std::string, std::vector<double>> all;
  norm.visit([&](const std::string& name, const Parameter& own) { all[name] = values(own.value); });
  return all;
}

void expect_near(const TensorView& given, const std::vector<double>& wanted) {
  const std::vector<double> own = values(given);
  ASSERT_EQ(own.size(), wanted.size());
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  const double part = given.dtype() == Dtype::f32 ? 1e-5 : 1e-12;
  for (std::size_t i = 0; i < own.size(); ++i) ASSERT_NEAR(own[i], wanted[i], part * largest) << i;
}

// y, and the statistics of training afterwards.
TEST(BatchNorm, FormulaWrittenOut) {
  Random random(2);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t dim : {1, 3, 16, 33}) {
      for (const std::int64_t count : {2, 3, 40, 1300}) {
        const BatchNormConfig config{.dim = dim, .epsilon = 0.01, .momentum = 0.25};
        BatchNorm norm = random_norm(config, dtype);
        const Tensor x = normal(random, {count, 1, dim}, dtype, 3);
        auto before = parameters(norm);
        const std::vector<double> in = values(x);
        std::vector<double> frozen, trained, mean_after, variance_after, mean(in.size()), variance(in.size());
        const auto channels = static_cast<std::size_t>(dim);
        for (std::size_t c = 0; c < channels; ++c) {
          for (std::size_t i = c; i < in.size(); i += channels) mean[c] += in[i] / static_cast<double>(count);
          for (std::size_t i = c; i < in.size(); i += channels) variance[c] += std::pow(in[i] - mean[c], 2);
          mean_after.push_back(0.75 * before["running_mean"][c] + 0.25 * mean[c]);
          variance_after.push_back(0.75 * before["running_var"][c] +
                                   0.25 * variance[c] / static_cast<double>(count - 1));
          variance[c] /= static_cast<double>(count);
        }
        for (std::size_t i = 0; i < in.size(); ++i) {
          const std::size_t c = i % channels;
          const auto y = [&](double centre, double spread) {
            return (in[i] - centre) / std::sqrt(spread + 0.01) * before["weight"][c] + before["bias"][c];
          };
          frozen.push_back(y(before["running_mean"][c], before["running_var"][c]));
          trained.push_back(y(mean[c], variance[c]));
        }
        expect_near(norm.forward(x), frozen);
        BatchNormSaved saved;
        expect_near(norm.forward(x, saved), trained);
        norm.visit([&](const std::string& name, const Parameter& own) {
          if (name == "running_mean") expect_near(own.value, mean_after);
          if (name == "running_var") expect_near(own.value, variance_after);
        });
      }
    }
  }
}

// A large mean with a small spread: nothing cancels, also in f32.
// Whatever its scope is called, as torch draws it.
TEST(BatchNorm, BeginsAsTheNormAlone) {
  for (const std::string scope : {"", "bn1.", "norm."}) {
    Weights weights = initial_weights(1);
    BatchNorm({.dim = 3}, weights, scope).visit([&](const std::string& name, const Parameter& own) {
      const bool one = name == "weight" || name == "running_var";
      EXPECT_EQ(values(own.value), std::vector<double>(3, one ? 1.0 : 0.0)) << scope << name;
    });
  }
}

TEST(BatchNorm, LargeMean) {
  Random random(3);
  Tensor x = normal(random, {400, 2});
  for (std::int64_t i = 0; i < x.element_count(); ++i) x.data<float>()[i] += 1000;
  const Tensor wide = convert(x, Dtype::f64);
  BatchNorm norm = random_norm({.dim = 2}, Dtype::f32), exact = random_norm({.dim = 2}, Dtype::f64);
  BatchNormSaved saved, saved_exact;
  EXPECT_LE(testing::difference(norm.forward(x, saved), exact.forward(wide, saved_exact)), 1e-5);
}

TEST(BatchNorm, Gradients) {
  Random random(4);
  for (const bool training : {true, false}) {
    for (const std::int64_t dim : {1, 5}) {
      BatchNorm norm = random_norm({.dim = dim, .epsilon = 1e-3}, Dtype::f64);
      Tensor x = normal(random, {2, 3, dim}, Dtype::f64);
      const Tensor grad_out = normal(random, x.shape(), Dtype::f64);
      BatchNormSaved saved;
      norm.forward(x, saved);
      const auto loss = [&] {
        BatchNormSaved own;
        return testing::dot(training ? norm.forward(x, own) : norm.forward(x), grad_out);
      };
      // What is there is added to.
      Tensor grad_x = grad_out;
      training ? norm.backward(x, saved, grad_out, grad_x) : norm.backward(x, grad_out, grad_x);
      for (std::int64_t i = 0; i < x.element_count(); ++i) grad_x.data<double>()[i] -= grad_out.data<double>()[i];
      testing::expect_gradient(loss, x, grad_x);
      for (const std::string wanted : {"weight", "bias"}) {
        Tensor value, gradient;
        norm.visit([&](const std::string& name, const Parameter& own) {
          if (name != wanted) return;
          value = own.value;
          gradient = own.gradient;
        });
        testing::expect_gradient(
            [&] {
              norm.update([&](const std::string& name, Parameter& own) {
                if (name == wanted) own.value = value;
              });
              return loss();
            },
            value, gradient);
      }
    }
  }
}

// Statistics are listed, and want no gradient.
TEST(BatchNorm, StatisticsAreNotTrained) {
  const BatchNorm norm = random_norm({.dim = 2}, Dtype::f32);
  std::map<std::string, bool> trained;
  norm.visit([&](const std::string& name, const Parameter& own) { trained[name] = own.has_gradient(); });
  EXPECT_EQ(trained, (std::map<std::string, bool>{
                         {"weight", true}, {"bias", true}, {"running_mean", false}, {"running_var", false}}));
  Weights weights = initial_weights(1);
  const BatchNorm fresh({.dim = 3, .epsilon = 0}, weights, "norm1.");
  const Tensor x = Tensor::of<float>({1, 3}, {1, -2, 3});
  EXPECT_TRUE(same_bits(fresh.forward(x), x));
}

TEST(BatchNorm, AnyThreadsGiveTheSameBits) {
  Random random(5);
  const Tensor x = normal(random, {5, 700, 40}), grad_out = normal(random, {5, 700, 40});
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 5}) {
    BatchNorm norm = random_norm({.dim = 40}, Dtype::f32);
    BatchNormSaved saved;
    std::vector<Tensor> results{norm.forward(x, threads), norm.forward(x, saved, threads), Tensor::zeros(x.shape())};
    norm.backward(x, saved, grad_out, results[2], threads);
    norm.visit([&](const std::string&, const Parameter& own) {
      results.push_back(own.value);
      if (own.has_gradient()) results.push_back(own.gradient);
    });
    if (first.empty()) first = results;
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(same_bits(results[i], first[i])) << threads << ", " << i;
  }
}

// With running statistics a row stands alone, backward as well; in training a NaN stays in its channel.
TEST(BatchNorm, WhatNanReaches) {
  Random random(6);
  BatchNorm norm = random_norm({.dim = 3}, Dtype::f32);
  const Tensor clean = normal(random, {4, 3}), grad_out = normal(random, {4, 3});
  Tensor x = clean;
  testing::put(x, {1, 2}, testing::kNan);
  const auto expect_nan = [](const Tensor& out, bool whole_channel) {
    for (std::int64_t row = 0; row < 4; ++row) {
      for (std::int64_t c = 0; c < 3; ++c) {
        EXPECT_EQ(std::isnan(out.view().at<float>({row, c})), c == 2 && (whole_channel || row == 1));
      }
    }
  };
  expect_nan(norm.forward(x), false);
  Tensor spoilt = grad_out, grad_x = Tensor::zeros({4, 3});
  testing::put(spoilt, {1, 2}, testing::kNan);
  norm.backward(clean, spoilt, grad_x);
  expect_nan(grad_x, false);
  BatchNormSaved saved;
  expect_nan(norm.forward(x, saved), true);
}

TEST(BatchNorm, RefusesWhatDoesNotFit) {
  BatchNorm norm = random_norm({.dim = 3}, Dtype::f32);
  BatchNormSaved saved;
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 4})), std::invalid_argument);
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 3}, Dtype::f64)), std::invalid_argument);
  EXPECT_THROW(norm.forward(Tensor::zeros({1, 3}), saved), std::invalid_argument);
  EXPECT_THROW(norm.forward(Tensor::zeros({0, 3}), saved), std::invalid_argument);
  EXPECT_EQ(norm.forward(Tensor::zeros({0, 3})).shape(), (Dims{0, 3}));
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_THROW(norm.backward(x, saved, x), std::invalid_argument);
  EXPECT_THROW(norm.backward(x, Tensor::zeros({3, 3})), std::invalid_argument);
  Tensor wrong = Tensor::zeros({3, 3});
  EXPECT_THROW(norm.backward(x, x, wrong), std::invalid_argument);
  EXPECT_THROW(random_norm({.dim = 3, .epsilon = -1}, Dtype::f32), std::invalid_argument);
  EXPECT_THROW(random_norm({.dim = 3, .momentum = 1.5}, Dtype::f32), std::invalid_argument);
  EXPECT_THROW(random_norm({.dim = 0}, Dtype::f32), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
