// Weights kept in fewer bits: the products are those of the rounded weights, to the last bit.
#include "attention/attention_testing.h"
#include "qkv/matmul.h"
#include "stop_for_test.h"

namespace qkv {
namespace {

QKV_ON_EACH_TARGET(MatmulStorage);

Tensor random_matrix(const Dims& shape, std::uint64_t seed) {
  Random random(seed);
  return testing::normal(random, shape);
}

struct Sizes {
  std::int64_t m, k, n;
};

// The depths of 1,100 and 2,100 span several blocks of every kernel; depths of 64 and 192 fill tiles.
constexpr Sizes kStorageSizes[] = {{1, 1, 1},    {1, 256, 96},  {3, 7, 5},      {8, 64, 48},  {9, 65, 49},
                                   {13, 0, 5},   {0, 4, 4},     {17, 1100, 31}, {300, 20, 3}, {2, 2100, 50},
                                   {16, 64, 48}, {35, 192, 53}, {17, 128, 7}};

// 0 and -0 are the same here.
void expect_equal(const Tensor& a, const Tensor& b) { ASSERT_EQ(testing::difference(a, b), 0); }

TEST_P(MatmulStorage, Bf16IsTheProductWithRoundedWeights) {
  for (const auto& [m, k, n] : kStorageSizes) {
    const Tensor a = random_matrix({m, k}, 1), b = random_matrix({n, k}, 2), bias = random_matrix({n}, 3);
    const Tensor rounded = convert(convert(b, Dtype::bf16), Dtype::f32);
    Tensor out = Tensor::uninitialized({m, n}), expected = out;
    matmul(a, PackedMatrix(b.view().transpose(0, 1), 0, WeightStorage::bf16), out, {.bias = bias, .threads = 3});
    matmul(a, PackedMatrix(rounded.view().transpose(0, 1)), expected, {.bias = bias});
    expect_equal(out, expected);
  }
}

// Whole numbers of some elements, and their unit.
struct Numbers {
  std::vector<int> whole{};
  float unit = 0;
};

// Up to `most`, by the rule of matmul.h.
Numbers symmetric_numbers(const float* x, std::int64_t count, int most = 127) {
  float largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(x[i]));
  Numbers numbers{.unit = largest / static_cast<float>(most)};
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.whole.push_back(numbers.unit > 0 ? static_cast<int>(std::nearbyint(x[i] / numbers.unit)) : 0);
  }
  return numbers;
}

// A group of a row by the rule of matmul.h: numbers less the one that stands for 0. It is multiplied by 255 / (most -
// least), not divided by the unit: ties fall differently.
Numbers row_numbers(const float* x, std::int64_t count) {
  float least = 0, most = 0;
  for (std::int64_t i = 0; i < count; ++i) least = std::min(least, x[i]), most = std::max(most, x[i]);
  Numbers numbers{.unit = (most - least) / 255};
  if (numbers.unit == 0) return {std::vector<int>(static_cast<std::size_t>(count)), 0};
  const float inverse = 255 / (most - least);
  const int zero = static_cast<int>(std::nearbyint(-least * inverse));
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.whole.push_back(std::min(static_cast<int>(std::nearbyint(x[i] * inverse)), 255 - zero));
  }
  return numbers;
}

// A column of a group as the packed matrix has it.
Numbers packed_numbers(const PackedMatrix& packed, std::int64_t column, std::int64_t begin) {
  const std::int64_t width = packed.panel_columns(), step = packed.panel_group();
  const std::int64_t groups = packed.column_scales().size(1);
  const std::int64_t group = column / width * groups + begin / 32;
  Numbers numbers{.unit = packed.column_scales().data<float>()[group * width + column % width]};
  for (std::int64_t k = 0; k < 32; ++k) {
    const std::int64_t at = (group * 32 + k / step * step) * width + column % width * step + k % step;
    numbers.whole.push_back(packed.panels().data<std::int8_t>()[at]);
  }
  return numbers;
}

// a [m, k] times b [n, k]: sums of whole numbers, of int8 in one group, else of 32 steps, and f32 sums of the groups in
// their order.
void expect_whole_products(const Tensor& a, const Tensor& b, WeightStorage storage) {
  const std::int64_t m = a.size(0), k = a.size(1), n = b.size(0);
  const bool grouped = storage == WeightStorage::int8_groups;
  const std::int64_t step = grouped ? 32 : std::max<std::int64_t>(k, 1);
  const Tensor bias = random_matrix({n}, 3), before = random_matrix({m, n}, 4);
  const PackedMatrix packed(b.view().transpose(0, 1), 0, storage);
  Tensor sums = Tensor::zeros({m, n});
  for (std::int64_t begin = 0; begin < k; begin += step) {
    const std::int64_t count = std::min(step, k - begin);
    std::vector<Numbers> columns;
    for (std::int64_t j = 0; j < n; ++j) {
      columns.push_back(grouped ? packed_numbers(packed, j, begin) : symmetric_numbers(b.data<float>() + j * k, k));
    }
    for (std::int64_t i = 0; i < m; ++i) {
      const float* x = a.data<float>() + i * k + begin;
      const auto [row, row_unit] = grouped ? row_numbers(x, count) : symmetric_numbers(x, count);
      float* to = sums.data<float>() + i * n;
      for (const auto& [column, unit] : columns) {
        const auto sum = std::inner_product(row.begin(), row.end(), column.begin(), std::int64_t{0});
        const float value = static_cast<float>(sum) * (row_unit * unit);
        *to++ += value;
      }
    }
  }
  for (const bool accumulate : {false, true}) {
    Tensor out = before, expected = sums;
    for (std::int64_t at = 0; at < m * n; ++at) {
      float& value = expected.data<float>()[at];
      if (accumulate) value = before.data<float>()[at] + value;
      value += bias.data<float>()[at % n];
    }
    matmul(a, packed, out, {.bias = bias, .accumulate = accumulate, .threads = accumulate ? 3 : 1});
    expect_equal(out, expected);
  }
}

TEST_P(MatmulStorage, Int8IsTheProductOfWholeNumbers) {
  for (const WeightStorage storage : {WeightStorage::int8, WeightStorage::int8_groups}) {
    for (const auto& [m, k, n] : kStorageSizes) {
      expect_whole_products(random_matrix({m, k}, 1), random_matrix({n, k}, 2), storage);
    }
  }
}

TEST_P(MatmulStorage, Int8GroupsOfAnyNumberOfRows) {
  for (std::int64_t m = 1; m <= 40; ++m) {
    const std::int64_t k = 1 + 37 * m % 131, n = 1 + 29 * m % 103;
    expect_whole_products(random_matrix({m, k}, 1), random_matrix({n, k}, 2), WeightStorage::int8_groups);
  }
}

// The ends of the whole numbers, what lies in the middle of two of them, of int8, whose unit is 1, zeros of either
// sign, and groups of nothing else; the largest everywhere, whose sums would overflow few bits.
TEST_P(MatmulStorage, Int8OfExtremes) {
  constexpr float kExtremes[] = {127, -127, 0, -0.0f}, kTies[] = {0.5f, 1.5f, -2.5f, -3.5f, 126.5f, -126.5f, 125.5f};
  Random random(5);
  const auto draw = [&](const Dims& shape, std::int64_t zeros, std::span<const float> numbers) {
    Tensor tensor = Tensor::zeros(shape);
    for (std::int64_t i = zeros; i < tensor.element_count(); ++i) {
      tensor.data<float>()[i] = i % shape[1] == 0 ? 127 : numbers[random.below(numbers.size())];
    }
    return tensor;
  };
  for (const WeightStorage storage : {WeightStorage::int8, WeightStorage::int8_groups}) {
    for (const std::int64_t m : {5, 16, 35}) {
      expect_whole_products(draw({m, 97}, 64, kExtremes), draw({51, 97}, 40, kExtremes), storage);
      expect_whole_products(draw({m, 45}, 0, kTies), draw({51, 45}, 0, kTies), storage);
    }
    for (const double left : {255.0, -255.0}) {
      for (const double right : {64.0, -64.0}) {
        expect_whole_products(testing::filled({25, 96}, left), testing::filled({5, 96}, right), storage);
      }
    }
  }
}

// Weights of a group are the nearest in their unit, which errs no more than max|b| / 64 does, and less for most.
TEST_P(MatmulStorage, Int8GroupsHaveTheUnitThatErrsLeast) {
  const std::int64_t k = 96, n = 50;
  const Tensor b = random_matrix({n, k}, 2);
  const PackedMatrix packed(b.view().transpose(0, 1), 0, WeightStorage::int8_groups);
  double own = 0, plain = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t begin = 0; begin < k; begin += 32) {
      const float* x = b.data<float>() + j * k + begin;
      const auto error_of = [&](const Numbers& numbers) {
        double sum = 0;
        for (std::size_t i = 0; i < 32; ++i) {
          const auto distance = static_cast<double>(x[i] - numbers.unit * static_cast<float>(numbers.whole[i]));
          EXPECT_LE(std::abs(numbers.whole[i]), 64);
          EXPECT_LE(std::abs(distance), 0.5001 * static_cast<double>(numbers.unit)) << x[i];
          sum += distance * distance;
        }
        return sum;
      };
      const double error = error_of(packed_numbers(packed, j, begin)), other = error_of(symmetric_numbers(x, 32, 64));
      EXPECT_LE(error, 1.0001 * other);
      own += error, plain += other;
    }
  }
  EXPECT_LT(own, 0.9 * plain);
}

TEST_P(MatmulStorage, Int8GroupsUnpackToTheirNumbers) {
  Tensor unpacked = Tensor::uninitialized({100, 60});
  const PackedMatrix packed(random_matrix({100, 70}, 5), 0, WeightStorage::int8_groups);
  packed.unpack(unpacked, 10);
  for (std::int64_t j = 0; j < 60; ++j) {
    for (std::int64_t k = 0; k < 100; ++k) {
      const auto [whole, unit] = packed_numbers(packed, j + 10, k / 32 * 32);
      EXPECT_EQ(unpacked.view().at<float>({k, j}), unit * static_cast<float>(whole[static_cast<std::size_t>(k % 32)]));
    }
  }
}

TEST(PackedMatrix, UnpackingATallMatrixCanBeStopped) {
  constexpr std::int64_t kRows = 1 << 17;
  const PackedMatrix packed(random_matrix({kRows, 1}, 6));
  Tensor unpacked = Tensor::uninitialized({kRows, 1});
  const auto unpack = [&] { packed.unpack(unpacked, 0, /*threads=*/1); };
  EXPECT_GE(test::questions_of(unpack), 2);
  test::expect_stops(unpack);
}

// Drawn blocks of [n, k], and their numbers by the rules of matmul.h.
struct Blocks {
  Tensor bytes, numbers;
};

Blocks random_blocks(WeightStorage storage, std::int64_t n, std::int64_t k) {
  Random random(7);
  const std::int64_t size = block_bytes(storage);
  Blocks drawn{Tensor::uninitialized({n, k / 32 * size}, Dtype::u8), Tensor::uninitialized({n, k})};
  auto* byte = drawn.bytes.data<std::uint8_t>();
  float* number = drawn.numbers.data<float>();
  for (std::int64_t block = 0; block < n * k / 32; ++block, byte += size, number += 32) {
    const Float16 halves[] = {Float16(static_cast<float>(random.uniform() - 0.5)),
                              Float16(static_cast<float>(random.uniform() - 0.5))};
    const float scale = static_cast<float>(halves[0]), least = static_cast<float>(halves[1]);
    const std::int64_t head = storage == WeightStorage::q8 ? 2 : 4;
    std::memcpy(byte, halves, static_cast<std::size_t>(head));
    for (std::int64_t i = head; i < size; ++i) byte[i] = static_cast<std::uint8_t>(random.uniform() * 256);
    for (std::int64_t i = 0; i < 32; ++i) {
      const int half = i < 16 ? byte[head + i] & 15 : byte[head + i - 16] >> 4;
      number[i] = storage == WeightStorage::q8 ? scale * static_cast<float>(static_cast<std::int8_t>(byte[head + i]))
                                               : scale * static_cast<float>(half) + least;
    }
  }
  return drawn;
}

// A tile of rows is multiplied by another kernel than many; 1,056 rows of weights span three blocks of the depth, 672
// six stretches.
TEST_P(MatmulStorage, BlocksAreTheProductOfTheirNumbers) {
  for (const WeightStorage storage : {WeightStorage::q8, WeightStorage::q4}) {
    for (const auto& [m, k, n] : {Sizes{1, 32, 1},
                                  {1, 1056, 49},
                                  {1, 64, 96},
                                  {2, 544, 50},
                                  {7, 1056, 53},
                                  {15, 544, 50},
                                  {17, 1056, 53},
                                  {300, 32, 3},
                                  {300, 672, 50},
                                  {1, 0, 5},
                                  {20, 0, 5},
                                  {1, 16384, 2}}) {
      const auto [bytes, numbers] = random_blocks(storage, n, k);
      const Tensor a = random_matrix({m, k}, 1), bias = random_matrix({n}, 3), before = random_matrix({m, n}, 4);
      const PackedMatrix blocks = PackedMatrix::of_blocks(bytes, storage), wide(numbers.view().transpose(0, 1));
      for (const bool accumulate : {false, true}) {
        Tensor out = before, expected = before;
        matmul(a, blocks, out, {.bias = bias, .accumulate = accumulate, .threads = 3});
        matmul(a, wide, expected, {.bias = bias, .accumulate = accumulate});
        EXPECT_TRUE(testing::same_bits(out, expected)) << m << " " << k << " " << n;
      }
      Tensor unpacked = Tensor::uninitialized({n, k});
      blocks.unpack(unpacked.view().transpose(0, 1));
      EXPECT_TRUE(testing::same_bits(unpacked, numbers));
    }
  }
}

TEST_P(MatmulStorage, Int8OfHostileRows) {
  for (const WeightStorage storage : {WeightStorage::int8, WeightStorage::int8_groups}) {
    const Tensor b = random_matrix({20, 10}, 2);
    const PackedMatrix packed(b, 0, storage);
    for (const double hostile : {testing::kNan, testing::kInfinity}) {
      for (const std::int64_t place : {0, 15, 16, 19}) {
        Tensor a = random_matrix({18, 20}, 1), out = Tensor::uninitialized({18, 10});
        testing::put(a, {0, place}, hostile);
        matmul(a, packed, out);
        for (std::int64_t i = 0; i < 180; ++i) {
          const float number = out.data<float>()[i];
          EXPECT_TRUE(i < 10 ? std::isnan(number) : std::isfinite(number)) << i;  // the row stays alone
        }
      }
      Tensor spoilt = b;
      testing::put(spoilt, {3, 3}, hostile);
      EXPECT_THROW(PackedMatrix(spoilt, 0, storage), std::invalid_argument);
    }
    for (const float size : {0.0f, 1e-45f, 1e-40f, 3e38f}) {  // zeros, subnormal numbers, products that overflow
      Tensor a = Tensor::zeros({1, 20}), out = Tensor::uninitialized({1, 10});
      for (std::int64_t x = 0; x < 20; x += 2) a.data<float>()[x] = size;
      matmul(a, packed, out);
      for (const double number : testing::values(out)) EXPECT_FALSE(std::isnan(number)) << size;
    }
    for (const double size : {1e-45, 1e-30, 1e-16}) {  // weights whose squares or inverse a float cannot hold
      Tensor out = Tensor::uninitialized({18, 10});
      matmul(random_matrix({18, 20}, 1), PackedMatrix(testing::filled({20, 10}, size), 0, storage), out);
      for (const double number : testing::values(out)) EXPECT_LE(std::abs(number), 100 * size);
    }
  }
}

TEST(MatmulStorageArguments, RefusesWhatDoesNotFit) {
  for (const WeightStorage storage : {WeightStorage::bf16, WeightStorage::int8, WeightStorage::int8_groups}) {
    EXPECT_THROW(PackedMatrix(Tensor::zeros({2, 2}, Dtype::f64), 0, storage), std::invalid_argument);
    if (storage == WeightStorage::bf16) continue;
    EXPECT_THROW(PackedMatrix(Tensor::zeros({65537, 1}), 0, storage), std::invalid_argument);
  }
  for (const WeightStorage storage : {WeightStorage::q8, WeightStorage::q4}) {
    EXPECT_THROW(PackedMatrix(Tensor::zeros({32, 2}), 0, storage), std::invalid_argument);
    const std::int64_t row = block_bytes(storage);
    for (const Tensor& blocks :
         {Tensor::zeros({2, row}), Tensor::zeros({2, row + 1}, Dtype::u8), Tensor::zeros({row}, Dtype::u8)}) {
      EXPECT_THROW(PackedMatrix::of_blocks(blocks, storage), std::invalid_argument);
    }
  }
  EXPECT_THROW(PackedMatrix::of_blocks(Tensor::zeros({2, 34}, Dtype::u8), WeightStorage::int8), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
