// CSV matrices.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "io/files.h"
#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv {
namespace {

void expect_csv(const std::string& text, const Dims& shape, const std::vector<double>& values) {
  const Tensor matrix = io::parse_csv(text, "a.csv");
  EXPECT_EQ(matrix.dtype(), Dtype::f64);
  EXPECT_EQ(matrix.shape(), shape) << text;
  EXPECT_EQ(test::values_of(matrix), values) << text;
}

TEST(Csv, ReadsNumbers) {
  expect_csv("1,2\n3,4\n", {2, 2}, {1, 2, 3, 4});
  expect_csv("1,2\n3,4", {2, 2}, {1, 2, 3, 4});
  expect_csv("1,2\r\n3,4\r\n", {2, 2}, {1, 2, 3, 4});
  expect_csv(
      "\xef\xbb\xbf"
      "1,2\n",
      {1, 2}, {1, 2});
  expect_csv(" 1 ,\t-2.5e-3\n", {1, 2}, {1, -2.5e-3});
  expect_csv("x,y\n1,2\n", {1, 2}, {1, 2});
  expect_csv("# note, 1\n\n  \nname\n# more\n7\n\n8\n", {2, 1}, {7, 8});
  expect_csv("0.1\n", {1, 1}, {0.1});
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  expect_csv("inf,-inf\n", {1, 2}, {kInfinity, -kInfinity});
  EXPECT_TRUE(std::isnan(io::parse_csv("nan\n", "a.csv").data<double>()[0]));
  expect_csv("+1,+2\n+.5,+inf\n", {2, 2}, {1, 2, 0.5, kInfinity});
}

TEST(Csv, TheFirstLineMayBeAHeader) {
  for (const char* header : {"x,y", "_,_", "1,x", "x,1", ",B", "inf,_1", "NaNs,2", "infinite,2", " x ,\"1\""}) {
    expect_csv(header + std::string("\n1,2\n"), {1, 2}, {1, 2});
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  expect_csv("inf,Infinity\n1,2\n", {2, 2}, {kInfinity, kInfinity, 1, 2});
  EXPECT_EQ(io::parse_csv("nan,NaN\n1,2\n", "a.csv").shape(), (Dims{2, 2}));
}

TEST(Csv, RefusesEveryBrokenRule) {
  const std::vector<test::Malformed> files = {
      {"", "no numbers"},
      {"\n\n", "no numbers"},
      {"# 1,2\n", "no numbers"},
      {"x,y\n", "no numbers"},
      {"1,2\n3\n", "line 2 has 1 fields, but line 1 has 2"},
      {"x,y\n1,2\n\n3,4,5\n", "line 4 has 3 fields, but line 2 has 2"},
      {"1,2\n3,4,\n", "line 2 has 3 fields, but line 1 has 2"},
      {"1,\n", "line 1, column 2: \"\" is not a number"},
      {"1,,2\n", "line 1, column 2: \"\" is not a number"},
      {"1e999,-1e999\n1,2\n", "line 1, column 1: \"1e999\" does not fit in 64 bits"},
      {"\"1\",\"2\"\n1,2\n", "line 1, column 1: \"\\\"1\\\"\" is not a number"},
      {",\n1,2\n", "line 1, column 1: \"\" is not a number"},
      {"1,#x\n", "line 1, column 2: \"#x\" is not a number"},
      {"\xc3\xa4,2\n1,2\n", "line 1, column 1: \"\\xc3\\xa4\" is not a number"},
      {"1\n+-1\n", "line 2, column 1: \"+-1\" is not a number"},
      {"1\n++1\n", "line 2, column 1: \"++1\" is not a number"},
      {"1\n+\n", "line 2, column 1: \"+\" is not a number"},
      {"1,2\n1,x\n", "line 2, column 2: \"x\" is not a number"},
      {"x\ny\n1\n", "line 2, column 1: \"y\" is not a number"},
      {"1\n1 2\n", "line 2, column 1: \"1 2\" is not a number"},
      {"1\n1;2\n", "line 2, column 1: \"1;2\" is not a number"},
      {"1\n0x10\n", "line 2, column 1: \"0x10\" is not a number"},
      {"1\n\"1\"\n", "line 2, column 1: \"\\\"1\\\"\" is not a number"},
      {"1\n1e999\n", "line 2, column 1: \"1e999\" does not fit in 64 bits"},
      {std::string("1\n1\0\n", 5), "line 2, column 1: \"1\\x00\" is not a number"},
      {"1\r2\r", "line 1, column 1: \"1\\x0d2\" is not a number"},
      {"1\n\xff\n", "line 2, column 1: \"\\xff\" is not a number"},
      {"1\n" + std::string(100, 'x'), "xxx\"... is not a number"},
  };
  test::expect_refused(files, "bad.csv", read_csv);
}

}  // namespace
}  // namespace qkv
