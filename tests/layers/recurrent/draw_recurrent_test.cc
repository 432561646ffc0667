// The weights that the training of a recurrent layer starts from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "layers/recurrent/recurrent_testing.h"
#include "qkv/layers/initial_weights.h"

namespace qkv {
namespace {

Recurrent drawn(RecurrentCell cell, std::uint64_t seed, double forget_bias = 0) {
  Recurrent layer = testing::random_recurrent({.cell = cell, .in = 9, .hidden = 25}, Dtype::f64);
  draw_recurrent(layer, seed, forget_bias);
  return layer;
}

std::map<std::string, std::vector<double>> numbers(const Recurrent& layer) {
  std::map<std::string, std::vector<double>> all;
  layer.visit([&](const std::string& name, const Parameter& p) {
    all[name].assign(p.value.data<double>(), p.value.data<double>() + p.value.element_count());
  });
  return all;
}

// Uniform within 1/5: no number is beyond, some are beyond 0.15, their mean square is 1/75. The fewest, 25, have a mean
// square that varies by 0.9 / sqrt(25) of itself.
TEST(DrawRecurrent, IsUniformWithinTheRootOfTheStates) {
  for (const RecurrentCell cell : testing::kRecurrentCells) {
    for (const auto& [name, values] : numbers(drawn(cell, 1))) {
      double square = 0, most = 0;
      for (const double value : values) square += value * value, most = std::max(most, std::abs(value));
      EXPECT_LE(most, 0.2) << name;
      EXPECT_GT(most, 0.15) << name;
      EXPECT_NEAR(square / static_cast<double>(values.size()) * 75, 1, 0.6) << name;
    }
  }
  EXPECT_EQ(numbers(drawn(RecurrentCell::gru, 1)), numbers(drawn(RecurrentCell::gru, 1)));
  EXPECT_NE(numbers(drawn(RecurrentCell::gru, 1)), numbers(drawn(RecurrentCell::gru, 2)));
}

TEST(DrawRecurrent, OpensTheForgetGate) {
  const auto open = numbers(drawn(RecurrentCell::lstm, 1, 1)), closed = numbers(drawn(RecurrentCell::lstm, 1));
  for (std::size_t i = 0; i < 100; ++i) {
    const bool forget = i >= 25 && i < 50;
    EXPECT_EQ(open.at("bias_ih_l0")[i], closed.at("bias_ih_l0")[i] + (forget ? 1 : 0));
  }
  for (const char* same : {"bias_hh_l0", "weight_ih_l0", "weight_hh_l0"}) EXPECT_EQ(open.at(same), closed.at(same));
  EXPECT_THROW(drawn(RecurrentCell::gru, 1, 1), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
