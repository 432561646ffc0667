// Activations against the C library in double, over a table of ranges.
#include "attention/attention_testing.h"
#include "ops/rowwise/row_kernels.h"

namespace qkv {
namespace {

double gelu(double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); }
double gelu_slope(double x) {
  return 0.5 * std::erfc(-x * std::sqrt(0.5)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
}
double tanh_argument(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(tanh_argument(x))); }
double gelu_tanh_slope(double x) {
  const double u = tanh_argument(x), slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
  return 1 / (1 + std::exp(-2 * u)) + 0.5 * x / (std::cosh(u) * std::cosh(u)) * slope;
}
double silu(double x) { return x / (1 + std::exp(-x)); }
double silu_slope(double x) { return (1 + x - silu(x)) / (1 + std::exp(-x)); }
double relu(double x) { return std::max(x, 0.0); }
double relu_slope(double x) { return x > 0 ? 1 : 0; }

// The largest |got - exact(x)| / max(|x|, least).
template <class T>
double worst_error(const std::vector<T>& x, const std::vector<T>& got, double (*exact)(double), double least) {
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<double>(x[i]);
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - exact(at)) / std::max(std::abs(at), least));
  }
  return worst;
}

// So many numbers from `begin` to `end`.
template <class T>
std::vector<T> spread(double begin, double end, int count) {
  std::vector<T> x;
  for (int i = 0; i < count; ++i) x.push_back(static_cast<T>(begin + (end - begin) * i / (count - 1)));
  return x;
}

template <class T>
std::vector<T> activated(Activation activation, std::vector<T> x) {
  activate(activation, x.data(), static_cast<std::int64_t>(x.size()));
  return x;
}

QKV_ON_EACH_TARGET(ActivationKernel);

// Of GELU: bounds of |error| / max(|x|, smallest normal number), what a weight of the next layer sees.
struct Range {
  double begin, end, f32, f64;
};

// Around 0 the tail is half of x and has some eight roundings behind it, of 6e-8 and 1.1e-16 each; above 4 only the
// last subtraction is left; far below 0 the error vanishes with the result.
constexpr Range kRanges[] = {
    {0, 1e-3, 2.5e-7, 8e-16}, {1e-3, 1, 2.5e-7, 8e-16},   {1, 4, 2.5e-7, 8e-16},      {4, 14, 1.2e-7, 3e-16},
    {14, 1e30, 1e-12, 1e-15}, {-1e-3, 0, 2.5e-7, 8e-16},  {-1, -1e-3, 2.5e-7, 8e-16}, {-4, -1, 1e-7, 3e-16},
    {-14, -4, 1e-10, 1e-18},  {-1e30, -14, 1e-20, 1e-30},
};

template <class T>
double worst_in(const Range& range) {
  const std::vector<T> x = spread<T>(range.begin, range.end, 20001);
  return worst_error(x, activated(Activation::gelu, x), gelu, static_cast<double>(std::numeric_limits<T>::min()));
}

TEST_P(ActivationKernel, GeluIsExact) {
  for (const Range& range : kRanges) {
    EXPECT_LE(worst_in<float>(range), range.f32) << range.begin << " to " << range.end;
    EXPECT_LE(worst_in<double>(range), range.f64) << range.begin << " to " << range.end;
  }
}

template <class T>
void expect_edges() {
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  for (const Activation activation : {Activation::gelu, Activation::relu}) {
    EXPECT_EQ(activated<T>(activation, {0, infinity, -infinity, T(-1e30)}), (std::vector<T>{0, infinity, 0, 0}));
    EXPECT_TRUE(std::isnan(activated<T>(activation, {1, nan})[1]));
  }
}

TEST_P(ActivationKernel, InfinitiesAndNan) {
  expect_edges<float>();
  expect_edges<double>();
}

// Some ten roundings, of numbers that grow with x: SiLU itself, and x times a distance from 1 in its derivative.
template <class T>
void expect_values_and_derivatives(double unit) {
  const std::vector<T> x = spread<T>(-20, 19.99, 4001);
  const struct {
    Activation activation;
    double (*value)(double), (*slope)(double);
  } all[] = {{Activation::relu, relu, relu_slope},
             {Activation::gelu, gelu, gelu_slope},
             {Activation::gelu_tanh, gelu_tanh, gelu_tanh_slope},
             {Activation::silu, silu, silu_slope}};
  for (const auto& [activation, value, slope] : all) {
    SCOPED_TRACE(static_cast<int>(activation));
    EXPECT_LE(worst_error(x, activated(activation, x), value, 1), 10 * unit);
    std::vector<T> gradient(x.size(), T(2));
    activate_backward(activation, x.data(), gradient.data(), static_cast<std::int64_t>(x.size()));
    for (T& number : gradient) number /= 2;
    EXPECT_LE(worst_error(x, gradient, slope, 1), 10 * unit);
  }
}

TEST_P(ActivationKernel, ValuesAndDerivatives) {
  expect_values_and_derivatives<float>(6e-8);
  expect_values_and_derivatives<double>(1.1e-16);
}

// An element's bits do not depend on its place or its neighbours, and nothing beyond the count is touched.
TEST_P(ActivationKernel, EveryCount) {
  Random random(1);
  std::vector<float> x(70);
  for (float& value : x) value = static_cast<float>(2 * random.normal());
  const std::vector<float> all = activated(Activation::gelu, x);
  for (int begin = 0; begin < 3; ++begin) {
    for (int count = 0; begin + count <= 67; ++count) {
      std::vector<float> some = x, wanted = x;
      activate(Activation::gelu, some.data() + begin, count);
      std::copy_n(all.begin() + begin, count, wanted.begin() + begin);
      EXPECT_EQ(some, wanted) << begin << ", " << count;
    }
  }
}

}  // namespace
}  // namespace qkv
