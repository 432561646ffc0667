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

// The depths of 1,100 and 2,100 span several blocks of every kernel; depths of 64 and 192 fill tiles.
constexpr Sizes kSizes[] = {{1, 1, 1},    {1, 256, 96},  {3, 7, 5},      {8, 64, 48},  {9, 65, 49},
                            {13, 0, 5},   {0, 4, 4},     {17, 1100, 31}, {300, 20, 3}, {2, 2100, 50},
                            {16, 64, 48}, {35, 192, 53}, {17, 128, 7}};

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

// Whole numbers up to `most` of `count` elements a step apart, and their unit, by the rule of matmul.h.
std::vector<int> whole_numbers(const float* x, std::int64_t count, std::int64_t step, float& unit, int most = 127) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(x[i * step]));
  unit = largest / static_cast<float>(most);
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

// A group of a row by the rule of matmul.h: numbers less the one that stands for 0. It is multiplied by 255 / (most -
// least), not divided by the unit: ties fall differently.
std::vector<int> row_numbers(const float* x, std::int64_t count, float& unit) {
  float least = 0, most = 0;
  for (std::int64_t i = 0; i < count; ++i) least = std::min(least, x[i]), most = std::max(most, x[i]);
  unit = (most - least) / 255;
  if (unit == 0) return std::vector<int>(static_cast<std::size_t>(count));
  const float inverse = 255 / (most - least);
  const int zero = static_cast<int>(std::nearbyint(-least * inverse));
  std::vector<int> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(std::min(static_cast<int>(std::nearbyint(x[i] * inverse)), 255 - zero));
  }
  return numbers;
}

// A column of a group as the packed matrix has it, and its unit.
std::vector<int> packed_numbers(const PackedMatrix& packed, std::int64_t column, std::int64_t begin, float& unit) {
  const std::int64_t width = packed.panel_columns(), step = packed.panel_group();
  const std::int64_t groups = packed.column_scales().size(1);
  const std::int64_t group = column / width * groups + begin / 32;
  unit = packed.column_scales().data<float>()[group * width + column % width];
  std::vector<int> numbers;
  for (std::int64_t k = 0; k < 32; ++k) {
    const std::int64_t at = (group * 32 + k / step * step) * width + column % width * step + k % step;
    numbers.push_back(packed.panels().data<std::int8_t>()[at]);
  }
  return numbers;
}

// Sums of whole numbers in groups of 32 steps, and f32 sums of the groups in their order.
void expect_products_of_groups(const Tensor& a, const Tensor& b) {
  const std::int64_t m = a.size(0), k = a.size(1), n = b.size(0);
  const Tensor bias = random_tensor({n}, 3);
  const PackedMatrix packed(b.view().transpose(0, 1), 0, WeightStorage::int8_groups);
  for (const bool accumulate : {false, true}) {
    const Tensor before = random_tensor({m, n}, 4);
    Tensor out = before, expected = before;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        float total = 0;
        for (std::int64_t begin = 0; begin < k; begin += 32) {
          float row_unit, column_unit;
          const auto left =
              row_numbers(a.data<float>() + i * k + begin, std::min<std::int64_t>(32, k - begin), row_unit);
          const auto right = packed_numbers(packed, j, begin, column_unit);
          std::int64_t sum = 0;
          for (std::size_t x = 0; x < left.size(); ++x) sum += left[x] * right[x];
          const float value = static_cast<float>(sum) * (row_unit * column_unit);
          total += value;
        }
        float& place = expected.data<float>()[i * n + j];
        if (accumulate) total = place + total;
        place = total + bias.data<float>()[j];
      }
    }
    matmul(a, packed, out, {.bias = bias, .accumulate = accumulate});
    expect_same(out, expected);
  }
}

TEST_P(MatmulStorage, Int8GroupsAreProductsOfWholeNumbers) {
  for (const auto& [m, k, n] : kSizes) expect_products_of_groups(random_tensor({m, k}, 1), random_tensor({n, k}, 2));
}

TEST_P(MatmulStorage, Int8GroupsOfAnyNumberOfRows) {
  for (std::int64_t m = 1; m <= 40; ++m) {
    const std::int64_t k = 1 + 37 * m % 131, n = 1 + 29 * m % 103;
    expect_products_of_groups(random_tensor({m, k}, 1), random_tensor({n, k}, 2));
  }
}

// The ends of the whole numbers, zeros of either sign, and groups of nothing else.
TEST_P(MatmulStorage, Int8GroupsOfExtremes) {
  constexpr float kExtremes[] = {127, -127, 0, -0.0f};
  Random random(5);
  const auto extremes = [&](const Dims& shape, std::int64_t zeros) {
    Tensor tensor = Tensor::zeros(shape);
    for (std::int64_t i = zeros; i < tensor.element_count(); ++i) {
      tensor.data<float>()[i] = kExtremes[random.below(4)];
    }
    return tensor;
  };
  for (const std::int64_t m : {5, 16, 35}) expect_products_of_groups(extremes({m, 97}, 64), extremes({51, 97}, 40));
}

// Weights of a group are the nearest in their unit, which errs no more than max|b| / 64 does, and less for most.
TEST_P(MatmulStorage, Int8GroupsHaveTheUnitThatErrsLeast) {
  const std::int64_t k = 96, n = 50;
  const Tensor b = random_tensor({n, k}, 2);
  const PackedMatrix packed(b.view().transpose(0, 1), 0, WeightStorage::int8_groups);
  double own = 0, plain = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t begin = 0; begin < k; begin += 32) {
      const float* x = b.data<float>() + j * k + begin;
      float unit, plain_unit;
      const auto numbers = packed_numbers(packed, j, begin, unit);
      const auto plain_numbers = whole_numbers(x, 32, 1, plain_unit, 64);
      double error = 0, plain_error = 0;
      for (std::size_t i = 0; i < 32; ++i) {
        EXPECT_LE(std::abs(numbers[i]), 64);
        const double distance = static_cast<double>(x[i] - unit * static_cast<float>(numbers[i]));
        EXPECT_LE(std::abs(distance), 0.5001 * static_cast<double>(unit)) << x[i];
        error += distance * distance;
        const auto plain_distance = static_cast<double>(x[i] - plain_unit * static_cast<float>(plain_numbers[i]));
        plain_error += plain_distance * plain_distance;
      }
      EXPECT_LE(error, 1.0001 * plain_error);
      own += error, plain += plain_error;
    }
  }
  EXPECT_LT(own, 0.9 * plain);
}

// The largest whole numbers everywhere, of either sign: sums of few bits would overflow.
TEST_P(MatmulStorage, Int8GroupsHoldTheLargestNumbers) {
  const std::int64_t k = 96;
  for (const float left : {255.0f, -255.0f}) {
    for (const float right : {64.0f, -64.0f}) {
      Tensor a = Tensor::uninitialized({25, k}), b = Tensor::uninitialized({k, 5}),
             out = Tensor::uninitialized({25, 5});
      std::fill_n(a.data<float>(), 25 * k, left);
      std::fill_n(b.data<float>(), k * 5, right);
      matmul(a, PackedMatrix(b, 0, WeightStorage::int8_groups), out);
      // The unit of constant weights is not 1, but its products are as near as f32 is.
      for (std::int64_t i = 0; i < 125; ++i) EXPECT_NEAR(out.data<float>()[i] / (left * right * 96), 1, 1e-6);
    }
  }
}

TEST_P(MatmulStorage, Int8GroupsUnpackToTheirNumbers) {
  const Tensor b = random_tensor({100, 70}, 5);
  Tensor unpacked = Tensor::uninitialized({100, 60});
  const PackedMatrix packed(b, 0, WeightStorage::int8_groups);
  packed.unpack(unpacked, 10);
  for (std::int64_t j = 0; j < 60; ++j) {
    for (std::int64_t k = 0; k < 100; ++k) {
      float unit;
      const auto numbers = packed_numbers(packed, j + 10, k / 32 * 32, unit);
      EXPECT_EQ(unpacked.view().at<float>({k, j}),
                unit * static_cast<float>(numbers[static_cast<std::size_t>(k % 32)]));
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
  for (std::int64_t i = 0; i < k; ++i) numbers.data<float>()[i] = i % 32 == 0 ? 127 : kTies[i % 11];
  for (std::int64_t i = 0; i < k; ++i) unit.data<float>()[i * k + i] = 127;
  matmul(numbers, PackedMatrix(unit, 0, WeightStorage::int8), out);
  const auto expected = [&](std::int64_t i) { return i % 32 == 0 ? 127.0f : kEven[i % 11]; };
  for (std::int64_t i = 0; i < k; ++i) EXPECT_EQ(out.data<float>()[i], expected(i) * 127) << "of a row: " << i;
  Tensor column = Tensor::uninitialized({k, 1});
  matmul(unit, PackedMatrix(numbers.view().transpose(0, 1), 0, WeightStorage::int8), column);
  for (std::int64_t i = 0; i < k; ++i) EXPECT_EQ(column.data<float>()[i], expected(i) * 127) << "of weights: " << i;
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
  for (const WeightStorage storage : {WeightStorage::bf16, WeightStorage::int8, WeightStorage::int8_groups}) {
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

void expect_hostile_rows_stay_alone(WeightStorage storage) {
  const Tensor b = random_tensor({20, 10}, 2);
  const PackedMatrix packed(b, 0, storage);
  for (const float hostile : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::int64_t place : {0, 15, 16, 19}) {
      Tensor a = random_tensor({18, 20}, 1);
      a.data<float>()[place] = hostile;
      Tensor out = Tensor::uninitialized({18, 10});
      matmul(a, packed, out);
      for (std::int64_t j = 0; j < 10; ++j) EXPECT_TRUE(std::isnan(out.data<float>()[j]));
      for (std::int64_t i = 10; i < 180; ++i) EXPECT_TRUE(std::isfinite(out.data<float>()[i]));
    }
    Tensor spoilt = b;
    spoilt.data<float>()[33] = hostile;
    EXPECT_THROW(PackedMatrix(spoilt, 0, storage), std::invalid_argument);
  }
  for (const float size : {0.0f, 1e-45f, 1e-40f, 3e38f}) {  // zeros, subnormal numbers, products that overflow
    Tensor a = Tensor::zeros({1, 20}), out = Tensor::uninitialized({1, 10});
    for (std::int64_t x = 0; x < 20; ++x) a.data<float>()[x] = x % 2 == 0 ? size : 0;
    matmul(a, packed, out);
    for (std::int64_t j = 0; j < 10; ++j) EXPECT_FALSE(std::isnan(out.data<float>()[j])) << size;
  }
}

TEST_P(MatmulStorage, Int8OfHostileRows) {
  expect_hostile_rows_stay_alone(WeightStorage::int8);
  expect_hostile_rows_stay_alone(WeightStorage::int8_groups);
}

TEST(MatmulStorageArguments, RefusesWhatDoesNotFit) {
  for (const WeightStorage storage : {WeightStorage::bf16, WeightStorage::int8, WeightStorage::int8_groups}) {
    EXPECT_THROW(PackedMatrix(Tensor::zeros({2, 2}, Dtype::f64), 0, storage), std::invalid_argument);
  }
  EXPECT_THROW(PackedMatrix(Tensor::zeros({65537, 1}), 0, WeightStorage::int8), std::invalid_argument);
  EXPECT_THROW(PackedMatrix(Tensor::zeros({65537, 1}), 0, WeightStorage::int8_groups), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
