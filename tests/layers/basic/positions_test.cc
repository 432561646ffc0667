// Positions against numbers by hand: offsets of lengths, positions within sequences, sinusoids in both orders,
// rotations back and forth.
#include "qkv/layers/positions.h"

#include "attention/attention_testing.h"
#include "layers/basic/rotary_angles.h"

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
  EXPECT_TRUE(positions_of(offsets_of(std::vector<std::int64_t>{}), 3).empty());
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

// The first two of four elements; frequencies are base^0 and base^(-1/2) where four rotate.
TEST(Positions, RotationOfAPartAndScaled) {
  const std::vector<std::int32_t> positions{6};
  const auto rotated = [&](const RotaryConfig& config, int direction = 1) {
    Tensor rows = Tensor::of<double>({1, 4}, {1, 2, 3, 4});
    rotate_heads(config, positions, 1, rows, direction);
    return rows;
  };
  const auto expect = [&](const RotaryConfig& config, double first, double second, double times = 1) {
    const double c = times * std::cos(first), s = times * std::sin(first);
    const double d = times * std::cos(second), t = times * std::sin(second);
    expect_row(rotated(config), {c - 3 * s, 2 * d - 4 * t, s + 3 * c, 2 * t + 4 * d});
    expect_row(rotated(config, -1), {c + 3 * s, 2 * d + 4 * t, 3 * c - s, 4 * d - 2 * t});
  };
  const double c = std::cos(6.0), s = std::sin(6.0);
  expect_row(rotated({.base = 100, .dims = 2}), {c - 2 * s, s + 2 * c, 3, 4});

  using enum RotaryScaling::Kind;
  expect({.base = 100, .scaling = {.kind = linear, .factor = 4}}, 1.5, 0.15);
  // Over 16 positions the pairs make 2.5 and 0.25 turns.
  const double fewer = (16 / (2 * std::numbers::pi) - 1) / 4, least = (1.6 / (2 * std::numbers::pi) - 0.1) / 4;
  expect({.base = 100, .scaling = {.kind = llama3, .factor = 2, .trained = 16, .slow = 1, .fast = 5}},
         6 * (0.5 * (1 - fewer) + fewer), 0.3);
  expect({.base = 100, .scaling = {.kind = llama3, .factor = 2, .trained = 16, .slow = 0.1, .fast = 4.1}},
         6 * (0.5 * (1 - (16 / (2 * std::numbers::pi) - 0.1) / 4) + (16 / (2 * std::numbers::pi) - 0.1) / 4),
         0.6 * (0.5 * (1 - least) + least));
  // Pairs 2 ln(16 / (2 pi turns)) / ln(100) make 2 and 0.2 turns: 0.105 and 1.105.
  const double begin = 2 * std::log(16 / (4 * std::numbers::pi)) / std::log(100);
  const RotaryScaling yarn_scaling{
      .kind = yarn, .factor = 3, .trained = 16, .slow = 0.2, .fast = 2, .magnitude = 1.25, .whole = false};
  const double share = (1 - begin) / 1.0;
  expect({.base = 100, .scaling = yarn_scaling}, 6, 0.6 * (share / 3 + 1 - share), 1.25);
  RotaryScaling whole = yarn_scaling;  // from pair 0 to 2
  whole.whole = true;
  expect({.base = 100, .scaling = whole}, 6, 0.6 * (0.5 / 3 + 0.5), 1.25);
  // Position 6 of 4: base times (3 * 7 / 4 - 2)^(4 / 2); within 7 as it is.
  const double base = 100 * std::pow(3 * 7 / 4.0 - 2, 2.0);
  expect({.base = 100, .scaling = {.kind = dynamic, .factor = 3, .trained = 4}}, 6, 6 / std::sqrt(base));
  expect({.base = 100, .scaling = {.kind = dynamic, .factor = 3, .trained = 7}}, 6, 0.6);

  for (const RotaryConfig& wrong : std::vector<RotaryConfig>{{.dims = 3},
                                                             {.dims = 6},
                                                             {.base = 0},
                                                             {.scaling = {.kind = linear, .factor = 0.5}},
                                                             {.scaling = {.kind = yarn, .factor = 2}},
                                                             {.dims = 2, .scaling = {.kind = dynamic, .trained = 4}},
                                                             {.scaling = {.kind = llama3, .trained = 4, .slow = 40}}}) {
    EXPECT_THROW(rotated(wrong), std::invalid_argument);
  }
}

// Behind 2,048 positions, where 32 pages of 64 are kept: what one layer has made serves the next one.
TEST(Positions, AnglesOfFarPositionsAreMadeOnce) {
  RotaryAngles angles({.base = 100}, 4);
  const auto of = [&](std::int32_t position, Dtype dtype = Dtype::f64) {
    return angles.of(std::vector{position}, dtype);
  };
  const RotaryRows first = of(5000);
  EXPECT_EQ(of(5000).rows, first.rows);
  EXPECT_NE(of(5000, Dtype::f32).rows, first.rows);
  for (std::int32_t page = 0; page < 40; ++page) of(2048 + 64 * page);
  EXPECT_NE(of(5000).rows, first.rows);
  const auto* cosine = reinterpret_cast<const double*>(first.rows[0]);
  EXPECT_NEAR(cosine[0], std::cos(5000.0), 1e-9);
}

}  // namespace
}  // namespace qkv
