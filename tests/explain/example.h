// Finds sections and numbers in a walk-through, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "qkv/explain/explain.h"

namespace qkv::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline Tensor matrix(std::int64_t rows, std::int64_t columns, const std::vector<double>& values) {
  return Tensor::of<double>({rows, columns}, values);
}

// The first tensor of that name.
inline Tensor quantity(const Explanation& explanation, const std::string& name) {
  for (const Section& section : explanation.sections) {
    for (const Block& block : section.blocks) {
      for (const Quantity& candidate : block.quantities) {
        if (candidate.name == name) return candidate.values;
      }
    }
  }
  ADD_FAILURE() << "there is no " << name;
  return Tensor::zeros({1}, Dtype::f64);
}

inline void expect_values(const Tensor& actual, const Dims& shape, const std::vector<double>& expected,
                          double tolerance) {
  ASSERT_EQ(actual.shape(), shape) << to_string(actual.shape());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual.data<double>()[i], expected[i], tolerance) << "element " << i;
  }
}

// "1.93662 6.68311 1.59507" is on one line.
inline bool has_line_with(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline double sum_of_row(const Tensor& matrix, std::int64_t row) {
  double sum = 0;
  for (std::int64_t j = 0; j < matrix.size(1); ++j) sum += matrix.view().at<double>({row, j});
  return sum;
}

// Rounding of float32 in a row of weights.
inline constexpr double kRounding = 1e-6;

inline std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    longest = std::max(longest, end - begin);
    begin = end + 1;
  }
  return longest;
}

}  // namespace qkv::test
