// matmul against a plain double loop, on every target that this machine has.
#include "qkv/matmul.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "qkv/random.h"
#include "qkv/target.h"

namespace qkv {
namespace {

template <class T>
Tensor random_tensor(const Dims& shape, Random& random) {
  Tensor tensor = Tensor::uninitialized(shape, dtype_of<T>);
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) tensor.data<T>()[i] = static_cast<T>(random.normal());
  return tensor;
}

template <class T>
std::string bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data<T>()),
          static_cast<std::size_t>(tensor.element_count()) * sizeof(T)};
}

// Runs `body` on each usable target in turn, then returns to the default.
template <class Body>
void on_every_target(Body body) {
  for (const Target& target : targets()) {
    if (!target.usable) continue;
    SCOPED_TRACE("target " + target.name);
    select_target(target.name);
    body();
  }
  select_target("");
}

// Checks every element of out against (before +) a b (+ bias) in double. Any order of k + 2 roundings errs by at most
// k + 2 half units of epsilon times the sum of the magnitudes; 1.01 covers the terms of second order.
template <class T>
void expect_product(const TensorView& a, const TensorView& b, const TensorView& bias, const TensorView& before,
                    const TensorView& out) {
  const std::int64_t k = a.size(1);
  const double unit = 0.5 * static_cast<double>(std::numeric_limits<T>::epsilon()) * static_cast<double>(k + 2) * 1.01;
  // The reference itself rounds in double.
  const double own = std::numeric_limits<double>::epsilon() * static_cast<double>(k + 2);
  for (std::int64_t i = 0; i < out.size(0); ++i) {
    for (std::int64_t j = 0; j < out.size(1); ++j) {
      const double first = before ? static_cast<double>(before.at<T>({i, j})) : 0.0;
      const double last = bias ? static_cast<double>(bias.at<T>({j})) : 0.0;
      double sum = first + last, magnitude = std::abs(first) + std::abs(last);
      const T *left = a.data<T>() + i * a.stride(0), *right = b.data<T>() + j * b.stride(1);
      for (std::int64_t x = 0; x < k; ++x) {
        const double term = static_cast<double>(left[x * a.stride(1)]) * static_cast<double>(right[x * b.stride(0)]);
        sum += term;
        magnitude += std::abs(term);
      }
      ASSERT_NEAR(out.at<T>({i, j}), sum, (unit + own) * magnitude) << "element " << i << ", " << j;
    }
  }
}

constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 47, 48, 49, 97, 200};

template <class T>
class Matmul : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Matmul, Types);

TYPED_TEST(Matmul, EverySizeOnEveryTarget) {
  using T = TypeParam;
  on_every_target([] {
    Random random(1);
    const Tensor all_a = random_tensor<T>({200, 200}, random), all_b = random_tensor<T>({200, 200}, random);
    for (const std::int64_t m : kSizes) {
      for (const std::int64_t n : kSizes) {
        for (const std::int64_t k : kSizes) {
          // All three large tell nothing new and take long.
          if (m > 49 && n > 49 && k > 49) continue;
          SCOPED_TRACE("m " + std::to_string(m) + ", n " + std::to_string(n) + ", k " + std::to_string(k));
          const TensorView a = all_a.view().slice(0, 0, m).slice(1, 0, k);
          const TensorView b = all_b.view().slice(0, 0, k).slice(1, 0, n);
          Tensor out = random_tensor<T>({m, n}, random);
          matmul(a, b, out, {.threads = 1});
          expect_product<T>(a, b, {}, {}, out);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

TYPED_TEST(Matmul, TransposedLeftOperand) {
  using T = TypeParam;
  on_every_target([] {
    Random random(8);
    // The depth of 1,100 spans several blocks.
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                  {50, 49, 1100},
                                  {97, 9, 33},
                                  {3, 150, 2},
                                  {48, 96, 512},
                                  {5, 4, 0},
                                  {0, 3, 2},
                                  {3, 0, 2}}) {
      SCOPED_TRACE("m " + std::to_string(m) + ", n " + std::to_string(n) + ", k " + std::to_string(k));
      const Tensor a = random_tensor<T>({k, m + 2}, random), b = random_tensor<T>({k, n}, random);
      const TensorView a_part = a.view().slice(1, 1, 1 + m);
      const PackedMatrix left(a_part), right(b);
      for (const bool accumulate : {false, true}) {
        Tensor out = random_tensor<T>({m, n + 3}, random);
        const Tensor before = out;
        matmul_transposed(left, right, out.view().slice(1, 1, 1 + n), {.accumulate = accumulate, .threads = 1});
        const TensorView result = out, old = before;
        expect_product<T>(a_part.transpose(0, 1), b, {}, accumulate ? old.slice(1, 1, 1 + n) : TensorView(),
                          result.slice(1, 1, 1 + n));
        if (testing::Test::HasFatalFailure()) return;
        Tensor again = before;
        matmul_transposed(left, right, again.view().slice(1, 1, 1 + n), {.accumulate = accumulate, .threads = 3});
        ASSERT_EQ(bytes_of<T>(again), bytes_of<T>(out));
      }
    }
  });
}

TYPED_TEST(Matmul, StridesBiasAndAccumulate) {
  using T = TypeParam;
  on_every_target([] {
    Random random(2);
    // The depth of 1,100 spans several blocks.
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{13, 50, 1100}, {9, 97, 33}, {300, 48, 20}, {2, 1, 0}}) {
      const Tensor a = random_tensor<T>({m, k + 5}, random), weight = random_tensor<T>({n, k}, random);
      const Tensor bias = random_tensor<T>({n}, random);
      const TensorView a_part = a.view().slice(1, 3, 3 + k), b = weight.view().transpose(0, 1);
      for (const bool with_bias : {false, true}) {
        for (const bool accumulate : {false, true}) {
          Tensor out = random_tensor<T>({m, n + 7}, random);
          const Tensor before = out;
          MatmulOptions options{.accumulate = accumulate};
          if (with_bias) options.bias = bias;
          matmul(a_part, PackedMatrix(b), out.view().slice(1, 2, 2 + n), options);
          const TensorView result = out, old = before;
          expect_product<T>(a_part, b, options.bias, accumulate ? old.slice(1, 2, 2 + n) : TensorView(),
                            result.slice(1, 2, 2 + n));
          for (std::int64_t i = 0; i < m; ++i) {
            for (const std::int64_t j : {std::int64_t{0}, std::int64_t{1}, n + 2, n + 6}) {
              ASSERT_EQ(result.at<T>({i, j}), old.at<T>({i, j})) << "an element outside of the view changed";
            }
          }
        }
      }
    }
  });
}

TYPED_TEST(Matmul, ReadsRowsInAnyOrder) {
  using T = TypeParam;
  Random random(3);
  const Tensor a = random_tensor<T>({5, 20}, random), b = random_tensor<T>({20, 30}, random);
  const T* last = a.data<T>() + 4 * 20;
  const TensorView reversed(reinterpret_cast<const std::byte*>(last), dtype_of<T>, {5, 20}, {-20, 1});
  const TensorView repeated(a.view().bytes(), dtype_of<T>, {5, 20}, {0, 1});
  for (const TensorView& view : {reversed, repeated}) {
    Tensor out = Tensor::zeros({5, 30}, dtype_of<T>);
    matmul(view, b, out);
    expect_product<T>(view, b, {}, {}, out);
  }
}

TYPED_TEST(Matmul, ARowHasTheSameBitsAlone) {
  using T = TypeParam;
  on_every_target([] {
    Random random(4);
    const std::int64_t m = 271, k = 1030, n = 101;
    const Tensor a = random_tensor<T>({m, k}, random), bias = random_tensor<T>({n}, random);
    const PackedMatrix b(random_tensor<T>({k, n}, random));
    Tensor together = Tensor::zeros({m, n}, dtype_of<T>), alone = Tensor::zeros({m, n}, dtype_of<T>);
    matmul(a, b, together, {.bias = bias});
    for (std::int64_t i = 0; i < m; ++i) {
      matmul(a.view().slice(0, i, i + 1), b, alone.view().slice(0, i, i + 1), {.bias = bias});
    }
    EXPECT_EQ(bytes_of<T>(together), bytes_of<T>(alone));
    // The first 7 rows go through the tiles of 4, 2 and 1 rows.
    Tensor seven = Tensor::zeros({7, n}, dtype_of<T>);
    matmul(a.view().slice(0, 0, 7), b, seven, {.bias = bias});
    EXPECT_EQ(bytes_of<T>(seven), bytes_of<T>(together).substr(0, 7 * n * sizeof(T)));
  });
}

TYPED_TEST(Matmul, ThreadsDoNotChangeBits) {
  using T = TypeParam;
  on_every_target([] {
    Random random(5);
    const std::int64_t m = 530, k = 130, n = 333;
    const Tensor a = random_tensor<T>({m, k}, random);
    const PackedMatrix b(random_tensor<T>({k, n}, random));
    Tensor one = Tensor::zeros({m, n}, dtype_of<T>);
    matmul(a, b, one, {.threads = 1});
    for (const int threads : {2, 3, 4, 7}) {
      Tensor many = Tensor::zeros({m, n}, dtype_of<T>);
      matmul(a, b, many, {.threads = threads});
      EXPECT_EQ(bytes_of<T>(one), bytes_of<T>(many)) << threads << " threads";
    }
  });
}

TYPED_TEST(Matmul, NonFiniteValuesPropagate) {
  using T = TypeParam;
  on_every_target([] {
    const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    // Rows: infinity; infinity minus infinity; infinity times zero; NaN; finite.
    const Tensor a = Tensor::of<T>({5, 2}, {infinity, 1, infinity, -infinity, 0, infinity, nan, 1, 1, 2});
    const Tensor b = Tensor::of<T>({2, 3}, {1, 1, -1, 1, 1, 0});
    Tensor out = Tensor::zeros({5, 3}, dtype_of<T>);
    matmul(a, b, out);
    const TensorView result = out;
    EXPECT_EQ(result.at<T>({0, 0}), infinity);
    EXPECT_EQ(result.at<T>({0, 2}), -infinity);
    EXPECT_TRUE(std::isnan(result.at<T>({1, 0})));
    EXPECT_EQ(result.at<T>({2, 0}), infinity);
    EXPECT_TRUE(std::isnan(result.at<T>({2, 2})));
    for (std::int64_t j = 0; j < 3; ++j) EXPECT_TRUE(std::isnan(result.at<T>({3, j})));
    EXPECT_EQ(result.at<T>({4, 0}), T(3));
    EXPECT_EQ(result.at<T>({4, 1}), T(3));
    EXPECT_EQ(result.at<T>({4, 2}), T(-1));
  });
}

TYPED_TEST(Matmul, EmptyDepthGivesTheBias) {
  using T = TypeParam;
  const TensorView a(nullptr, dtype_of<T>, {3, 0}), b(nullptr, dtype_of<T>, {0, 2});
  Tensor out = Tensor::of<T>({3, 2}, {1, 2, 3, 4, 5, 6});
  matmul(a, b, out, {.accumulate = true});
  EXPECT_EQ(bytes_of<T>(out), bytes_of<T>(Tensor::of<T>({3, 2}, {1, 2, 3, 4, 5, 6})));
  const Tensor bias = Tensor::of<T>({2}, {7, 8});
  matmul(a, b, out, {.bias = bias});
  EXPECT_EQ(bytes_of<T>(out), bytes_of<T>(Tensor::of<T>({3, 2}, {7, 8, 7, 8, 7, 8})));
  matmul(a, b, out);
  EXPECT_EQ(bytes_of<T>(out), bytes_of<T>(Tensor::zeros({3, 2}, dtype_of<T>)));
}

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(MatmulErrors, NameWhatDoesNotFit) {
  const Tensor a = Tensor::zeros({4, 3});
  const PackedMatrix b(Tensor::zeros({3, 5}));
  Tensor out = Tensor::zeros({4, 5});
  const auto call = [&](const TensorView& left, const MutableTensorView& result, const MatmulOptions& options = {}) {
    return message_of([&] { matmul(left, b, result, options); });
  };
  EXPECT_EQ(call(Tensor::zeros({4, 2}), out), "matmul: a is [4, 2]; with b [3, 5] it must be [m, 3]");
  EXPECT_EQ(call(a, Tensor::zeros({5, 4})), "matmul: out is [5, 4]; it must be [4, 5]");
  const Tensor short_bias = Tensor::zeros({4});
  EXPECT_EQ(call(a, out, {.bias = short_bias}), "matmul: bias is [4]; it must be [5]");
  EXPECT_EQ(call(Tensor::zeros({4, 3}, Dtype::f64), out), "matmul: a is f64, b is f32; they must agree");
  const Tensor columns = Tensor::zeros({3, 4});
  EXPECT_EQ(call(columns.view().transpose(0, 1), out), "matmul: the last stride of a is 4; it must be 1");
  const MutableTensorView overlapping(out.view().bytes(), Dtype::f32, {4, 5}, {4, 1});
  EXPECT_EQ(call(a, overlapping), "matmul: rows of out overlap: they are 5 elements, 4 apart");
  EXPECT_EQ(message_of([] { PackedMatrix(Tensor::zeros({2, 2}, Dtype::i32)); }),
            "PackedMatrix: the type is i32; it must be f32 or f64");
  EXPECT_EQ(message_of([] { PackedMatrix(Tensor::zeros({2})); }), "PackedMatrix: shape [2]; it must be [k, n]");
}

TEST(MatmulErrors, Transposed) {
  const PackedMatrix a(Tensor::zeros({3, 4})), b(Tensor::zeros({3, 5})), taller(Tensor::zeros({4, 5}));
  Tensor out = Tensor::zeros({4, 5}), square = Tensor::zeros({4, 4}), bias = Tensor::zeros({5});
  EXPECT_EQ(message_of([&] { matmul_transposed(a, taller, out); }),
            "matmul: a is f32 [3, 4] and b f32 [4, 5]; they must agree in type and rows");
  EXPECT_EQ(message_of([&] { matmul_transposed(a, b, square); }), "matmul: out is [4, 4]; it must be [4, 5]");
  EXPECT_EQ(message_of([&] { matmul_transposed(a, b, out, {.bias = bias}); }),
            "matmul: a transposed product takes no bias");
}

TEST(MatmulErrors, PackedForAnotherTarget) {
  std::vector<Target> usable;
  for (const Target& target : targets()) {
    if (target.usable) usable.push_back(target);
  }
  if (usable.size() < 2) GTEST_SKIP() << "one target alone";
  select_target(usable.front().name);
  const PackedMatrix b(Tensor::zeros({3, 5}));
  select_target(usable.back().name);
  Tensor out = Tensor::zeros({4, 5});
  const std::string message = message_of([&] { matmul(Tensor::zeros({4, 3}), b, out); });
  select_target("");
  EXPECT_NE(message.find("for another target"), std::string::npos) << message;
}

}  // namespace
}  // namespace qkv
