// JSON matrices.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv {
namespace {

void expect_json(const std::string& text, const Dims& shape, const std::vector<double>& values) {
  const Tensor matrix = parse_json_matrix(text, "a.json");
  EXPECT_EQ(matrix.dtype(), Dtype::f64);
  EXPECT_EQ(matrix.shape(), shape) << text;
  EXPECT_EQ(test::values_of(matrix), values) << text;
}

TEST(JsonMatrix, ReadsNumbers) {
  expect_json("[[1, 2], [3, 4]]", {2, 2}, {1, 2, 3, 4});
  expect_json("[1, -2, 0.1]", {1, 3}, {1, -2, 0.1});
  expect_json("[[1],\n [2.5e-3],\n [-3]]\n", {3, 1}, {1, 2.5e-3, -3});
  expect_json("[18446744073709551615, 1e300]", {1, 2}, {18446744073709551615.0, 1e300});
}

TEST(JsonMatrix, ReadsWhatJsonLacksAsStrings) {
  const Tensor matrix = parse_json_matrix(R"([["inf", 1], ["-inf", "nan"], [-0.0, 0]])", "a.json");
  const std::vector<double> values = test::values_of(matrix);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(matrix.shape(), (Dims{3, 2}));
  EXPECT_EQ(values[0], kInfinity);
  EXPECT_EQ(values[2], -kInfinity);
  EXPECT_TRUE(std::isnan(values[3]));
  EXPECT_TRUE(std::signbit(values[4]) && !std::signbit(values[5]));
}

TEST(JsonMatrix, RefusesEveryBrokenRule) {
  const std::vector<test::Malformed> files = {
      {"", "not valid JSON at line 1, column 1"},
      {"[[1, 2],\n [3, 4]", "not valid JSON at line 2, column 8"},
      {"[[1, 2],\n [3 4]]", "not valid JSON at line 2, column 5"},
      {"[1,]", "not valid JSON"},
      {"[NaN]", "not valid JSON"},
      {"[Infinity]", "not valid JSON"},
      {"[1] [2]", "not valid JSON"},
      {std::string("[1]\0", 4), "not valid JSON at line 1, column 4: a zero byte"},
      {"[1e999]", "number out of range"},
      {"[]", "no numbers"},
      {"[[]]", "row 1 is empty"},
      {"[[1], []]", "row 2 is empty"},
      {"[[1, 2], [3]]", "row 2 has 1 numbers, but row 1 has 2"},
      {"[[1], [2, 3]]", "row 2 has 2 numbers, but row 1 has 1"},
      {"1", "a number outside the rows in row 1"},
      {"{}", "an object in row 1"},
      {"[[1], {\"a\": 2}]", "an object in row 2"},
      {"[null]", "null in row 1"},
      {"[[true]]", "true or false in row 1"},
      {"[\"1\"]", "a string other than \"inf\", \"-inf\" and \"nan\" in row 1"},
      {"\"inf\"", "a number outside the rows in row 1"},
      {"[1, [2]]", "an array in row 1"},
      {"[[1], 2]", "a number outside the rows in row 2"},
      {"[[[1]]]", "an array in row 1"},
      {std::string(100'000, '['), "an array in row 1"},
  };
  test::expect_refused(files, "bad.json", read_json_matrix);
}

}  // namespace
}  // namespace qkv
