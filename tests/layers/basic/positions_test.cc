// Positions against numbers by hand: offsets of lengths, positions within sequences, sinusoids in both orders,
// rotations back and forth.
#include "qkv/layers/positions.h"

#include "attention/attention_testing.h"

namespace qkv {
namespace {

void expect_row(const TensorView& given, const std::vector<double>& wanted) {
  EXPECT_LE(testing::difference(given, Tensor::of({1, std::ssize(wanted)}, wanted)), 1e-14);
}

TEST(Sequences, OffsetsAreRunningSums) {
  const auto of = [](const std::vector<std::int64_t>& lengths) { return offsets_of(lengths); };
  EXPECT_TRUE(testing::same_bits(of({3, 0, 4}), Tensor::of<std::int32_t>({4}, {0, 3, 3, 7})));
  EXPECT_TRUE(testing::same_bits(of({}), Tensor::of<std::int32_t>({1}, {0})));
  EXPECT_THROW(of({2, -1}), std::invalid_argument);
  EXPECT_THROW(of({std::int64_t{1} << 30, std::int64_t{1} << 30}), std::invalid_argument);
}

TEST(Positions, WithinSequences) {
  const Tensor offsets = offsets_of(std::vector<std::int64_t>{2, 0, 3});
  EXPECT_EQ(positions_of(offsets, 3), (std::vector<std::int32_t>{0, 1, 0, 1, 2}));
  EXPECT_THROW(positions_of(offsets, 2), std::invalid_argument);
  EXPECT_THROW(positions_of(Tensor::zeros({2}), 3), std::invalid_argument);
}

TEST(Positions, Sinusoids) {
  const double s = std::sin(2.0), c = std::cos(2.0), slow = 2 / 100.0, slower = std::pow(10000.0, -2.0 / 3);
  const Tensor turns = sinusoids(3, 4, SinusoidOrder::in_turns, Dtype::f64);
  const Tensor first = sinusoids(3, 4, SinusoidOrder::sines_first, Dtype::f64);
  expect_row(turns.view().slice(0, 2, 3), {s, c, std::sin(slow), std::cos(slow)});
  expect_row(first.view().slice(0, 2, 3), {s, std::sin(slow), c, std::cos(slow)});
  // An odd size ends with a sine, in either order.
  EXPECT_EQ(sinusoids(1, 3, SinusoidOrder::in_turns, Dtype::f64).data<double>()[2], 0.0);
  expect_row(sinusoids(2, 3, SinusoidOrder::sines_first, Dtype::f64).view().slice(0, 1, 2),
             {std::sin(1.0), std::sin(slower), std::cos(1.0)});

  Tensor x = testing::filled({2, 4}, 1, Dtype::f64);
  add_positions(turns, std::vector<std::int32_t>{2, 0}, x);
  EXPECT_NEAR(x.data<double>()[1], 1 + c, 1e-15);
  EXPECT_NEAR(x.data<double>()[5], 2, 1e-15);
  EXPECT_THROW(add_positions(turns, std::vector<std::int32_t>{3, 0}, x), std::invalid_argument);
  EXPECT_THROW(add_positions(turns, std::vector<std::int32_t>{1}, x), std::invalid_argument);
}

TEST(Positions, Rotation) {
  const std::vector<std::int32_t> positions{3};
  const double c = std::cos(3.0), s = std::sin(3.0), slow_c = std::cos(0.3), slow_s = std::sin(0.3);
  Tensor rows = Tensor::of<double>({1, 4}, {1, 2, 3, 4});
  rotate_heads({.base = 100, .pairs = RotaryPairs::neighbours}, positions, 1, rows);
  expect_row(rows, {c - 2 * s, s + 2 * c, 3 * slow_c - 4 * slow_s, 3 * slow_s + 4 * slow_c});
  rows = Tensor::of<double>({1, 4}, {1, 2, 3, 4});
  rotate_heads({.base = 100}, positions, 1, rows);
  expect_row(rows, {c - 3 * s, 2 * slow_c - 4 * slow_s, s + 3 * c, 2 * slow_s + 4 * slow_c});
  rotate_heads({.base = 100}, positions, 1, rows, -1);
  expect_row(rows, {1, 2, 3, 4});
  EXPECT_THROW(rotate_heads({}, positions, 3, rows), std::invalid_argument);
}

// A product of a query and a key depends on their distance alone.
TEST(Positions, RotationKeepsDistances) {
  Random random(1);
  const Tensor pair = testing::normal(random, {2, 16}, Dtype::f64);
  const auto product = [&](std::int32_t query, std::int32_t key) {
    Tensor rows = pair;
    rotate_heads({}, std::vector<std::int32_t>{query, key}, 1, rows);
    double sum = 0;
    for (int i = 0; i < 16; ++i) sum += rows.data<double>()[i] * rows.data<double>()[16 + i];
    return sum;
  };
  EXPECT_NEAR(product(7, 4), product(103, 100), 1e-12);
}

}  // namespace
}  // namespace qkv
