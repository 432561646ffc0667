// matmul against a plain double loop, on every target that this machine has.
#include "qkv/matmul.h"

#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "ops/matmul/matmul_columns.h"

namespace qkv {
namespace {

using testing::normal;
using testing::same_bits;
using testing::values;

constexpr Dtype kTypes[] = {Dtype::f32, Dtype::f64};

struct Product {
  std::int64_t m, n, k;
};

std::string describe(const Product& product, Dtype dtype) {
  return fmt::format("{}, m {}, n {}, k {}", name_of(dtype), product.m, product.n, product.k);
}

// Checks every element of out against (before +) a b (+ bias) in double. Any order of k + 2 roundings errs by at most
// k + 2 half units of epsilon times the sum of the magnitudes; 1.01 covers the terms of second order. The plain loop
// itself rounds in double.
void expect_product(const TensorView& a, const TensorView& b, const TensorView& bias, const TensorView& before,
                    const TensorView& out) {
  const std::int64_t m = out.size(0), n = out.size(1), k = a.size(1);
  const double unit = 1.01 * (out.dtype() == Dtype::f32 ? 0x1p-24 : 0x1p-53) + 0x1p-52;
  const std::vector<double> left = values(a), right = values(b.transpose(0, 1)), got = values(out);
  const std::vector<double> first = before ? values(before) : std::vector<double>(got.size());
  const std::vector<double> last = bias ? values(bias) : std::vector<double>(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(i * n + j), column = static_cast<std::size_t>(j);
      double sum = first[at] + last[column], magnitude = std::abs(first[at]) + std::abs(last[column]);
      const double *x = left.data() + i * k, *y = right.data() + j * k;
      for (std::int64_t c = 0; c < k; ++c) {
        sum += x[c] * y[c];
        magnitude += std::abs(x[c] * y[c]);
      }
      ASSERT_NEAR(got[at], sum, static_cast<double>(k + 2) * unit * magnitude) << "element " << i << ", " << j;
    }
  }
}

QKV_ON_EACH_TARGET(Matmul);

constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 47, 48, 49, 97, 200};

TEST_P(Matmul, EverySize) {
  for (const Dtype dtype : kTypes) {
    Random random(1);
    const Tensor all_a = normal(random, {200, 200}, dtype), all_b = normal(random, {200, 200}, dtype);
    for (const std::int64_t m : kSizes) {
      for (const std::int64_t n : kSizes) {
        for (const std::int64_t k : kSizes) {
          // Several large ones tell nothing new and take long.
          if ((m > 49) + (n > 49) + (k > 49) > 1) continue;
          SCOPED_TRACE(describe({m, n, k}, dtype));
          const TensorView a = all_a.view().slice(0, 0, m).slice(1, 0, k);
          const TensorView b = all_b.view().slice(0, 0, k).slice(1, 0, n);
          Tensor out = testing::filled({m, n}, testing::kNan, dtype);
          matmul(a, b, out, {.threads = 1});
          expect_product(a, b, {}, {}, out);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// The depth of 1,100 spans several blocks.
TEST_P(Matmul, TransposedLeftOperand) {
  Random random(8);
  for (const Dtype dtype : kTypes) {
    for (const auto& [m, n, k] :
         {Product{1, 1, 1}, {50, 49, 1100}, {97, 9, 33}, {3, 150, 2}, {48, 96, 512}, {5, 4, 0}, {0, 3, 2}, {3, 0, 2}}) {
      SCOPED_TRACE(describe({m, n, k}, dtype));
      const Tensor a = normal(random, {k, m + 2}, dtype), b = normal(random, {k, n}, dtype);
      const TensorView a_part = a.view().slice(1, 1, 1 + m);
      const PackedMatrix left(a_part), right(b);
      for (const bool accumulate : {false, true}) {
        const Tensor before = normal(random, {m, n + 3}, dtype);
        Tensor out = before, again = before;
        matmul_transposed(left, right, out.view().slice(1, 1, 1 + n), {.accumulate = accumulate, .threads = 1});
        expect_product(a_part.transpose(0, 1), b, {}, accumulate ? before.view().slice(1, 1, 1 + n) : TensorView(),
                       out.view().slice(1, 1, 1 + n));
        matmul_transposed(left, right, again.view().slice(1, 1, 1 + n), {.accumulate = accumulate, .threads = 3});
        ASSERT_TRUE(same_bits(again, out));
      }
    }
  }
}

// Rows of a with gaps, walked backwards, and one row again and again.
TEST_P(Matmul, StridesBiasAndAccumulate) {
  Random random(2);
  for (const Dtype dtype : kTypes) {
    for (const auto& [m, n, k] : {Product{13, 50, 1100}, {9, 97, 33}, {300, 48, 20}, {2, 1, 0}}) {
      SCOPED_TRACE(describe({m, n, k}, dtype));
      const Tensor a = normal(random, {m, k + 5}, dtype), weight = normal(random, {n, k}, dtype);
      const Tensor bias = normal(random, {n}, dtype), before = normal(random, {m, n + 7}, dtype);
      const TensorView first = a.view().slice(1, 3, 3 + k), b = weight.view().transpose(0, 1);
      const TensorView old = before.view().slice(1, 2, 2 + n);
      for (const TensorView& rows : {first, TensorView(first.select(0, m - 1).bytes(), dtype, {m, k}, {-k - 5, 1}),
                                     TensorView(first.bytes(), dtype, {m, k}, {0, 1})}) {
        for (const MatmulOptions& options :
             {MatmulOptions{}, {.bias = bias}, {.accumulate = true}, {.bias = bias, .accumulate = true}}) {
          Tensor out = before;
          const MutableTensorView part = out.view().slice(1, 2, 2 + n);
          matmul(rows, PackedMatrix(b), part, options);
          expect_product(rows, b, options.bias, options.accumulate ? old : TensorView(), part);
          convert(old, part);
          EXPECT_TRUE(same_bits(out, before)) << "an element outside of the view changed";
        }
      }
    }
  }
}

TEST_P(Matmul, ARowHasTheSameBitsAloneAndForAnyThreads) {
  Random random(4);
  const std::int64_t m = 271, k = 1030, n = 333;
  for (const Dtype dtype : kTypes) {
    const Tensor a = normal(random, {m, k}, dtype), bias = normal(random, {n}, dtype);
    const PackedMatrix b(normal(random, {k, n}, dtype));
    Tensor one = Tensor::zeros({m, n}, dtype), other = one;
    matmul(a, b, one, {.bias = bias, .threads = 1});
    for (const int threads : {2, 3, 4, 7}) {
      matmul(a, b, other, {.bias = bias, .threads = threads});
      EXPECT_TRUE(same_bits(one, other)) << threads << " threads";
    }
    // Each row, and the first 7, which go through the tiles of 4, 2 and 1 rows.
    for (std::int64_t i = 0; i < m; ++i) {
      matmul(a.view().slice(0, i, i + 1), b, other.view().slice(0, i, i + 1), {.bias = bias});
    }
    EXPECT_TRUE(same_bits(one, other));
    matmul(a.view().slice(0, 0, 7), b, other.view().slice(0, 0, 7), {.bias = bias});
    EXPECT_TRUE(same_bits(one, other));
  }
}

TEST_P(Matmul, NonFiniteValuesPropagate) {
  constexpr double kInfinity = testing::kInfinity, kNan = testing::kNan;
  // Rows: infinity; infinity minus infinity; infinity times zero; NaN; finite.
  const Tensor a = Tensor::of<double>({5, 2}, {kInfinity, 1, kInfinity, -kInfinity, 0, kInfinity, kNan, 1, 1, 2});
  const Tensor b = Tensor::of<double>({2, 3}, {1, 1, -1, 1, 1, 0});
  const Tensor wanted = Tensor::of<double>({5, 3}, {kInfinity, kInfinity, -kInfinity, kNan, kNan, kNan, kInfinity,
                                                    kInfinity, kNan, kNan, kNan, kNan, 3, 3, -1});
  for (const Dtype dtype : kTypes) {
    Tensor out = Tensor::zeros({5, 3}, dtype);
    matmul(convert(a, dtype), convert(b, dtype), out);
    EXPECT_EQ(testing::difference(out, wanted), 0);
  }
}

template <class Call>
void expect_refused(const std::string& message, const Call& call) {
  EXPECT_EQ(test::message_of<std::invalid_argument>(call), message);
}

TEST(MatmulErrors, NameWhatDoesNotFit) {
  const Tensor a = Tensor::zeros({4, 3}), short_a = Tensor::zeros({4, 2}), wide_a = Tensor::zeros({4, 3}, Dtype::f64);
  const Tensor columns = Tensor::zeros({3, 4}), short_bias = Tensor::zeros({4});
  const PackedMatrix b(Tensor::zeros({3, 5}));
  Tensor out = Tensor::zeros({4, 5}), turned = Tensor::zeros({5, 4});
  const MutableTensorView overlapping(out.view().bytes(), Dtype::f32, {4, 5}, {4, 1});
  const auto product = [&](const TensorView& left, const MutableTensorView& result) {
    return [&b, left, result] { matmul(left, b, result); };
  };
  expect_refused("matmul: a is [4, 2]; with b [3, 5] it must be [m, 3]", product(short_a, out));
  expect_refused("matmul: out is [5, 4]; it must be [4, 5]", product(a, turned));
  expect_refused("matmul: bias is [4]; it must be [5]", [&] { matmul(a, b, out, {.bias = short_bias}); });
  expect_refused("matmul: a is f64, b is f32; they must agree", product(wide_a, out));
  expect_refused("matmul: the last stride of a is 4; it must be 1", product(columns.view().transpose(0, 1), out));
  expect_refused("matmul: rows of out overlap: they are 5 elements, 4 apart", product(a, overlapping));
  expect_refused("PackedMatrix: the type is i32; it must be f32 or f64",
                 [] { PackedMatrix(Tensor::zeros({2, 2}, Dtype::i32)); });
  expect_refused("PackedMatrix: shape [2]; it must be [k, n]", [] { PackedMatrix(Tensor::zeros({2})); });

  const PackedMatrix left(Tensor::zeros({3, 4})), taller(Tensor::zeros({4, 5}));
  expect_refused("matmul: a is f32 [3, 4] and b f32 [4, 5]; they must agree in type and rows",
                 [&] { matmul_transposed(left, taller, out); });
  expect_refused("matmul: out is [5, 4]; it must be [4, 5]", [&] { matmul_transposed(left, b, turned); });
  expect_refused("matmul: a transposed product takes no bias",
                 [&] { matmul_transposed(left, b, out, {.bias = short_bias}); });
}

TEST(MatmulErrors, PackedForAnotherTarget) {
  const std::vector<std::string> usable = testing::usable_targets();
  if (usable.size() < 2) GTEST_SKIP() << "one target alone";
  select_target(usable.front());
  const PackedMatrix b(Tensor::zeros({3, 5}));
  select_target(usable.back());
  Tensor out = Tensor::zeros({4, 5});
  const std::string message = test::message_of<std::invalid_argument>([&] { matmul(Tensor::zeros({4, 3}), b, out); });
  select_target("");
  EXPECT_NE(message.find("for another target"), std::string::npos) << message;
}

TEST_P(Matmul, SomeColumnsHaveTheBitsOfAll) {
  for (const Dtype dtype : kTypes) {
    Random random(9);
    const Tensor a = normal(random, {37, 600}, dtype), b = normal(random, {600, 211}, dtype),
                 bias = normal(random, {211}, dtype);
    const PackedMatrix packed(b);
    Tensor all = Tensor::zeros({37, 211}, dtype);
    matmul(a, packed, all, {.bias = bias});
    const std::int64_t step = column_step(packed);
    for (std::int64_t first = 0; first < 211; first += step) {
      for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, step, 3 * step + 2, 211 - first}) {
        if (first + count > 211) continue;
        Tensor some = Tensor::zeros({37, count}, dtype);
        matmul_columns(a, packed, first, some, {.bias = bias.view().slice(0, first, first + count), .threads = 2});
        EXPECT_TRUE(same_bits(some, all.view().slice(1, first, first + count))) << first << ", " << count;
      }
    }
    Tensor out = Tensor::zeros({37, 200}, dtype);
    EXPECT_EQ(testing::refusal([&] { matmul_columns(a, packed, 16 * step, out); }).find("matmul: no product"), 0U);
    if (step == 1) continue;
    EXPECT_EQ(testing::refusal([&] { matmul_columns(a, packed, 1, out); }).find("matmul: no product"), 0U);
  }
}

}  // namespace
}  // namespace qkv
