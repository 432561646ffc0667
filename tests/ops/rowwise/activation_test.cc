// Activations against the C library in double, over a table of ranges.
#include <cmath>
#include <functional>
#include <numbers>

#include "attention/attention_testing.h"
#include "ops/rowwise/row_kernels.h"

namespace qkv {
namespace {

double exact_gelu(double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }

struct Range {
  double begin, end;
  double f32, f64;  // bounds of |error| / max(|x|, smallest normal number): what a weight of the next layer sees
};

// Around 0 the tail is half of x and has some eight roundings behind it, of 6e-8 and 1.1e-16 each; above 4 only the
// last subtraction is left; far below 0 the error vanishes with the result.
constexpr Range kRanges[] = {
    {0, 1e-3, 2.5e-7, 8e-16}, {1e-3, 1, 2.5e-7, 8e-16},   {1, 4, 2.5e-7, 8e-16},      {4, 14, 1.2e-7, 3e-16},
    {14, 1e30, 1e-12, 1e-15}, {-1e-3, 0, 2.5e-7, 8e-16},  {-1, -1e-3, 2.5e-7, 8e-16}, {-4, -1, 1e-7, 3e-16},
    {-14, -4, 1e-10, 1e-18},  {-1e30, -14, 1e-20, 1e-30},
};

QKV_ON_EACH_TARGET(ActivationKernel);

template <class T>
void expect_range(const Range& range, double bound) {
  constexpr int kCount = 20001;
  std::vector<T> x(kCount), y;
  for (int i = 0; i < kCount; ++i)
    x[static_cast<std::size_t>(i)] = static_cast<T>(range.begin + (range.end - range.begin) * i / (kCount - 1));
  y = x;
  activate(Activation::gelu, y.data(), kCount);
  double worst = 0;
  for (int i = 0; i < kCount; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double size =
        std::max(std::abs(static_cast<double>(x[at])), static_cast<double>(std::numeric_limits<T>::min()));
    worst = std::max(worst, std::abs(static_cast<double>(y[at]) - exact_gelu(static_cast<double>(x[at]))) / size);
  }
  EXPECT_LE(worst, bound) << range.begin << " to " << range.end;
}

TEST_P(ActivationKernel, GeluIsExact) {
  for (const Range& range : kRanges) {
    expect_range<float>(range, range.f32);
    expect_range<double>(range, range.f64);
  }
}

template <class T>
void expect_edges() {
  const T infinity = std::numeric_limits<T>::infinity();
  std::vector<T> x{T(0), infinity, -infinity, std::numeric_limits<T>::quiet_NaN(), T(2), T(-1e30)};
  activate(Activation::gelu, x.data(), 6);
  EXPECT_EQ(x[0], T(0));
  EXPECT_EQ(x[1], infinity);
  EXPECT_EQ(x[2], T(0));
  EXPECT_TRUE(std::isnan(x[3]));
  EXPECT_EQ(x[5], T(0));
  std::vector<T> y{T(-1), T(0), T(3), infinity, -infinity, std::numeric_limits<T>::quiet_NaN()};
  activate(Activation::relu, y.data(), 6);
  EXPECT_EQ(y[0], T(0));
  EXPECT_EQ(y[2], T(3));
  EXPECT_EQ(y[3], infinity);
  EXPECT_EQ(y[4], T(0));
  EXPECT_TRUE(std::isnan(y[5]));
}

TEST_P(ActivationKernel, InfinitiesAndNan) {
  expect_edges<float>();
  expect_edges<double>();
}

double exact_silu(double x) { return x / (1 + std::exp(-x)); }

double exact_gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double exact_derivative(Activation activation, double x) {
  if (activation == Activation::gelu_tanh) {
    const double root = std::sqrt(2 / std::numbers::pi), u = root * (x + 0.044715 * x * x * x);
    return 1 / (1 + std::exp(-2 * u)) + 0.5 * x / (std::cosh(u) * std::cosh(u)) * root * (1 + 3 * 0.044715 * x * x);
  }
  if (activation == Activation::relu) return x > 0 ? 1 : 0;
  if (activation == Activation::silu) {
    const double s = 1 / (1 + std::exp(-x));
    return s * (1 + x * (1 - s));
  }
  return 0.5 * std::erfc(-x * std::sqrt(0.5)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
}

// Some ten roundings, of numbers that grow with x: SiLU itself, and x times a distance from 1 in its derivative.
template <class T>
void expect_derivatives(double unit) {
  constexpr int kCount = 4001;
  std::vector<T> x(kCount), gradient(kCount), silu, gelu_tanh;
  for (int i = 0; i < kCount; ++i) x[static_cast<std::size_t>(i)] = static_cast<T>(20.0 * (2 * i - kCount) / kCount);
  const auto worst = [&](const std::vector<T>& given, const std::function<double(double)>& exact) {
    double most = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double at = static_cast<double>(x[i]);
      most = std::max(most, std::abs(static_cast<double>(given[i]) - exact(at)) / std::max(1.0, std::abs(at)));
    }
    return most;
  };
  silu = x;
  activate(Activation::silu, silu.data(), kCount);
  EXPECT_LE(worst(silu, exact_silu), 10 * unit);
  gelu_tanh = x;
  activate(Activation::gelu_tanh, gelu_tanh.data(), kCount);
  EXPECT_LE(worst(gelu_tanh, exact_gelu_tanh), 10 * unit);
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    std::fill(gradient.begin(), gradient.end(), T(2));
    activate_backward(activation, x.data(), gradient.data(), kCount);
    EXPECT_LE(worst(gradient, [&](double at) { return 2 * exact_derivative(activation, at); }), 20 * unit);
  }
}

TEST_P(ActivationKernel, SiluAndDerivatives) {
  expect_derivatives<float>(6e-8);
  expect_derivatives<double>(1.1e-16);
}

// An element's bits do not depend on its place or its neighbours, and nothing beyond the count is touched.
TEST_P(ActivationKernel, EveryCount) {
  Random random(1);
  std::vector<float> x(70);
  for (float& value : x) value = static_cast<float>(2 * random.normal());
  std::vector<float> all = x;
  activate(Activation::gelu, all.data(), 70);
  for (int begin = 0; begin < 3; ++begin) {
    for (int count = 0; begin + count <= 67; ++count) {
      std::vector<float> some = x;
      activate(Activation::gelu, some.data() + begin, count);
      for (int i = 0; i < 70; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_EQ(some[at], i >= begin && i < begin + count ? all[at] : x[at]);
      }
    }
  }
}

}  // namespace
}  // namespace qkv
