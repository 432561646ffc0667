// Weights kept in fewer bits: the products are those of the rounded weights, to the last bit.
#include <cmath>
#include <limits>

#include "attention/attention_testing.h"
#include "qkv/matmul.h"
#include "qkv/random.h"

namespace qkv {
namespace {

QKV_ON_EACH_TARGET(MatmulStorage);

Tensor random_tensor(const Dims& shape, std::uint64_t seed) {
  Random random(seed);
  Tensor tensor = Tensor::uninitialized(shape);
  for (std::int64_t i = 0; i < tensor.element_count(); ++i)
    tensor.data<float>()[i] = static_cast<float>(random.normal());
  return tensor;
}

struct Sizes {
  std::int64_t m, k, n;
};

// The depths of 1,100 and 2,100 span several blocks of every kernel.
constexpr Sizes kSizes[] = {{1, 1, 1},  {1, 256, 96}, {3, 7, 5},      {8, 64, 48},  {9, 65, 49},
                            {13, 0, 5}, {0, 4, 4},    {17, 1100, 31}, {300, 20, 3}, {2, 2100, 50}};

void expect_same(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  for (std::int64_t i = 0; i < a.element_count(); ++i) ASSERT_EQ(a.data<float>()[i], b.data<float>()[i]) << i;
}

TEST_P(MatmulStorage, Bf16IsTheProductWithRoundedWeights) {
  for (const auto& [m, k, n] : kSizes) {
    const Tensor a = random_tensor({m, k}, 1), b = random_tensor({n, k}, 2), bias = random_tensor({n}, 3);
    Tensor rounded = b;
    for (std::int64_t i = 0; i < b.element_count(); ++i) {
      rounded.data<float>()[i] = static_cast<float>(BFloat16(b.data<float>()[i]));
    }
    Tensor out = Tensor::uninitialized({m, n}), expected = out;
    matmul(a, PackedMatrix(b.view().transpose(0, 1), 0, WeightStorage::bf16), out, {.bias = bias});
    matmul(a, PackedMatrix(rounded.view().transpose(0, 1)), expected, {.bias = bias});
    expect_same(out, expected);
  }
}

// Whole numbers of `count` elements a step apart, and their unit, by the rule of matmul.h.
std::vector<int> whole_numbers(const float* x, std::int64_t count, std::int64_t step, float& unit) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(x[i * step]));
  unit = largest / 127;
  std::vector<int> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(unit > 0 ? static_cast<int>(std::nearbyint(x[i * step] / unit)) : 0);
  }
  return numbers;
}

TEST_P(MatmulStorage, Int8IsTheProductOfWholeNumbers) {
  for (const auto& [m, k, n] : kSizes) {
    const Tensor a = random_tensor({m, k}, 1), b = random_tensor({n, k}, 2), bias = random_tensor({n}, 3);
    for (const bool accumulate : {false, true}) {
      const Tensor before = random_tensor({m, n}, 4);
      Tensor out = before, expected = before;
      for (std::int64_t i = 0; i < m; ++i) {
        float row_unit, column_unit;
        const auto left = whole_numbers(a.data<float>() + i * k, k, 1, row_unit);
        for (std::int64_t j = 0; j < n; ++j) {
          const auto right = whole_numbers(b.data<float>() + j * k, k, 1, column_unit);
          std::int64_t sum = 0;
          for (std::size_t x = 0; x < left.size(); ++x) sum += left[x] * right[x];
          float value = static_cast<float>(sum) * (row_unit * column_unit);
          float& place = expected.data<float>()[i * n + j];
          if (accumulate) value = place + value;
          place = value + bias.data<float>()[j];
        }
      }
      matmul(a, PackedMatrix(b.view().transpose(0, 1), 0, WeightStorage::int8), out,
             {.bias = bias, .accumulate = accumulate});
      expect_same(out, expected);
    }
  }
}

// What lies in the middle of two whole numbers becomes the even one, in rows and in weights. The largest number of each
// is 127, so that their unit is 1.
TEST_P(MatmulStorage, Int8RoundsTiesToEven) {
  constexpr float kTies[] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 3.5f, 125.5f, 126.5f, -126.5f, -125.5f};
  constexpr float kEven[] = {0, 2, 2, 0, -2, -2, 4, 126, 126, -126, -126};
  const std::int64_t k = 45;  // whole vectors and a rest
  Tensor numbers = Tensor::zeros({1, k}), unit = Tensor::zeros({k, k}), out = Tensor::uninitialized({1, k});
  numbers.data<float>()[0] = 127;
  for (std::int64_t i = 1; i < k; ++i) numbers.data<float>()[i] = kTies[i % 11];
  for (std::int64_t i = 0; i < k; ++i) unit.data<float>()[i * k + i] = 127;
  matmul(numbers, PackedMatrix(unit, 0, WeightStorage::int8), out);
  for (std::int64_t i = 1; i < k; ++i) EXPECT_EQ(out.data<float>()[i], kEven[i % 11] * 127) << "of a row: " << i;
  Tensor column = Tensor::uninitialized({k, 1});
  matmul(unit, PackedMatrix(numbers.view().transpose(0, 1), 0, WeightStorage::int8), column);
  for (std::int64_t i = 1; i < k; ++i) EXPECT_EQ(column.data<float>()[i], kEven[i % 11] * 127) << "of weights: " << i;
}

TEST_P(MatmulStorage, Int8ErrsByHalfAUnitOfEachOperand) {
  const std::int64_t m = 20, k = 700, n = 60;
  const Tensor a = random_tensor({m, k}, 1), b = random_tensor({k, n}, 2);
  Tensor out = Tensor::uninitialized({m, n});
  matmul(a, PackedMatrix(b, 0, WeightStorage::int8), out);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double exact = 0, left = 0, right = 0, largest_left = 0, largest_right = 0;
      for (std::int64_t x = 0; x < k; ++x) {
        const double p = static_cast<double>(a.data<float>()[i * k + x]),
                     q = static_cast<double>(b.data<float>()[x * n + j]);
        exact += p * q;
        left += std::abs(p), right += std::abs(q);
        largest_left = std::max(largest_left, std::abs(p)), largest_right = std::max(largest_right, std::abs(q));
      }
      const double u = largest_left / 254, v = largest_right / 254;
      EXPECT_NEAR(static_cast<double>(out.data<float>()[i * n + j]), exact,
                  1.001 * (u * right + v * left + static_cast<double>(k) * u * v));
    }
  }
}

TEST_P(MatmulStorage, ARowHasTheSameBitsInAnyCompany) {
  const Tensor a = random_tensor({37, 300}, 1), b = random_tensor({300, 130}, 2);
  for (const WeightStorage storage : {WeightStorage::bf16, WeightStorage::int8}) {
    const PackedMatrix packed(b, 0, storage);
    Tensor all = Tensor::uninitialized({37, 130});
    matmul(a, packed, all, {.threads = 1});
    for (const int threads : {2, 3, 7}) {
      Tensor out = Tensor::uninitialized({37, 130});
      matmul(a, packed, out, {.threads = threads});
      expect_same(out, all);
    }
    for (std::int64_t i = 0; i < 37; ++i) {
      Tensor row = Tensor::uninitialized({1, 130});
      matmul(a.view().slice(0, i, i + 1), packed, row);
      for (std::int64_t j = 0; j < 130; ++j) ASSERT_EQ(row.data<float>()[j], all.data<float>()[i * 130 + j]);
    }
  }
}

TEST_P(MatmulStorage, Int8OfHostileRows) {
  const Tensor b = random_tensor({20, 10}, 2);
  const PackedMatrix packed(b, 0, WeightStorage::int8);
  for (const float hostile : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::int64_t place : {0, 15, 16, 19}) {
      Tensor a = random_tensor({2, 20}, 1);
      a.data<float>()[place] = hostile;
      Tensor out = Tensor::uninitialized({2, 10});
      matmul(a, packed, out);
      for (std::int64_t j = 0; j < 10; ++j) {
        EXPECT_TRUE(std::isnan(out.data<float>()[j]));
        EXPECT_TRUE(std::isfinite(out.data<float>()[10 + j]));
      }
    }
    Tensor spoilt = b;
    spoilt.data<float>()[33] = hostile;
    EXPECT_THROW(PackedMatrix(spoilt, 0, WeightStorage::int8), std::invalid_argument);
  }
  for (const float size : {0.0f, 1e-45f, 1e-40f, 3e38f}) {  // zeros, subnormal numbers, products that overflow
    Tensor a = Tensor::zeros({1, 20}), out = Tensor::uninitialized({1, 10});
    for (std::int64_t x = 0; x < 20; ++x) a.data<float>()[x] = x % 2 == 0 ? size : 0;
    matmul(a, packed, out);
    for (std::int64_t j = 0; j < 10; ++j) EXPECT_FALSE(std::isnan(out.data<float>()[j])) << size;
  }
}

TEST(MatmulStorageArguments, RefusesWhatDoesNotFit) {
  for (const WeightStorage storage : {WeightStorage::bf16, WeightStorage::int8}) {
    EXPECT_THROW(PackedMatrix(Tensor::zeros({2, 2}, Dtype::f64), 0, storage), std::invalid_argument);
  }
  EXPECT_THROW(PackedMatrix(Tensor::zeros({65537, 1}), 0, WeightStorage::int8), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
