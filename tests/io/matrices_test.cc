// Matrices in CSV and JSON, and arrays by the ending of their path.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "io/files_for_test.h"
#include "io/parse.h"
#include "qkv/files.h"

namespace qkv {
namespace {

using test::expect_equal;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct MatrixText {
  std::string text;
  Dims shape;
  std::vector<double> values;
};

void expect_matrices(Tensor (*parse)(std::string_view, const std::string&), const std::vector<MatrixText>& matrices) {
  for (const MatrixText& expected : matrices) {
    const Tensor matrix = parse(expected.text, "a");
    EXPECT_EQ(matrix.dtype(), Dtype::f64);
    EXPECT_EQ(matrix.shape(), expected.shape) << expected.text;
    EXPECT_EQ(test::values_of(matrix), expected.values) << expected.text;
  }
}

TEST(Csv, ReadsNumbers) {
  expect_matrices(io::parse_csv, {{"1,2\n3,4\n", {2, 2}, {1, 2, 3, 4}},
                                  {"1,2\n3,4", {2, 2}, {1, 2, 3, 4}},
                                  {"1,2\r\n3,4\r\n", {2, 2}, {1, 2, 3, 4}},
                                  {"\ufeff1,2\n", {1, 2}, {1, 2}},
                                  {" 1 ,\t-2.5e-3\n", {1, 2}, {1, -2.5e-3}},
                                  {"x,y\n1,2\n", {1, 2}, {1, 2}},
                                  {"# note, 1\n\n  \nname\n# more\n7\n\n8\n", {2, 1}, {7, 8}},
                                  {"0.1\n", {1, 1}, {0.1}},
                                  {"inf,-inf\n", {1, 2}, {kInfinity, -kInfinity}},
                                  {"inf,Infinity\n1,2\n", {2, 2}, {kInfinity, kInfinity, 1, 2}},
                                  {"+1,+2\n+.5,+inf\n", {2, 2}, {1, 2, 0.5, kInfinity}}});
  EXPECT_TRUE(std::isnan(io::parse_csv("nan\n", "a.csv").data<double>()[0]));
  EXPECT_EQ(io::parse_csv("nan,NaN\n1,2\n", "a.csv").shape(), (Dims{2, 2}));
  for (const char* header : {"x,y", "_,_", "1,x", "x,1", ",B", "inf,_1", "NaNs,2", "infinite,2", " x ,\"1\""}) {
    expect_matrices(io::parse_csv, {{header + std::string("\n1,2\n"), {1, 2}, {1, 2}}});
  }
}

TEST(Csv, RefusesEveryBrokenRule) {
  test::expect_refused({{"", "no numbers"},
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
                        {"1\n0x10\n", "line 2, column 1: \"0x10\" is not a number"},
                        {"1\n\"1\"\n", "line 2, column 1: \"\\\"1\\\"\" is not a number"},
                        {"1\n1e999\n", "line 2, column 1: \"1e999\" does not fit in 64 bits"},
                        {std::string("1\n1\0\n", 5), "line 2, column 1: \"1\\x00\" is not a number"},
                        {"1\r2\r", "line 1, column 1: \"1\\x0d2\" is not a number"},
                        {"1\n\xff\n", "line 2, column 1: \"\\xff\" is not a number"},
                        {"1\n" + std::string(100, 'x'), "xxx\"... is not a number"}},
                       "bad.csv", read_csv);
}

TEST(JsonMatrix, ReadsNumbers) {
  expect_matrices(parse_json_matrix, {{"[[1, 2], [3, 4]]", {2, 2}, {1, 2, 3, 4}},
                                      {"[1, -2, 0.1]", {1, 3}, {1, -2, 0.1}},
                                      {"[[1],\n [2.5e-3],\n [-3]]\n", {3, 1}, {1, 2.5e-3, -3}},
                                      {R"(["inf", 1, "-inf"])", {1, 3}, {kInfinity, 1, -kInfinity}},
                                      {"[18446744073709551615, 1e300]", {1, 2}, {18446744073709551615.0, 1e300}}});
  const std::vector<double> values = test::values_of(parse_json_matrix(R"([["nan", -0.0, 0]])", "a.json"));
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_TRUE(std::signbit(values[1]) && !std::signbit(values[2]));
}

TEST(JsonMatrix, RefusesEveryBrokenRule) {
  test::expect_refused({{"", "not valid JSON at line 1, column 1"},
                        {"[[1, 2],\n [3, 4]", "not valid JSON at line 2, column 8"},
                        {"[[1, 2],\n [3 4]]", "not valid JSON at line 2, column 5"},
                        {"[1,]", "not valid JSON"},
                        {"[NaN]", "not valid JSON"},
                        {"[1] [2]", "not valid JSON"},
                        {std::string("[1]\0", 4), "not valid JSON at line 1, column 4: a zero byte"},
                        {"[1e999]", "number out of range"},
                        {"[]", "no numbers"},
                        {"[[]]", "row 1 is empty"},
                        {"[[1], []]", "row 2 is empty"},
                        {"[[1, 2], [3]]", "row 2 has 1 numbers, but row 1 has 2"},
                        {"[[1], [2, 3]]", "row 2 has 2 numbers, but row 1 has 1"},
                        {"1", "a number outside the rows in row 1"},
                        {"\"inf\"", "a number outside the rows in row 1"},
                        {"[[1], 2]", "a number outside the rows in row 2"},
                        {"{}", "an object in row 1"},
                        {"[[1], {\"a\": 2}]", "an object in row 2"},
                        {"[null]", "null in row 1"},
                        {"[[true]]", "true or false in row 1"},
                        {"[\"1\"]", "a string other than \"inf\", \"-inf\" and \"nan\" in row 1"},
                        {"[1, [2]]", "an array in row 1"},
                        {"[[[1]]]", "an array in row 1"},
                        {std::string(100'000, '['), "an array in row 1"}},
                       "bad.json", read_json_matrix);
}

TEST(ReadArray, TellsTheFormatByTheEnding) {
  const test::TemporaryFolder folder;
  const Tensor matrix = Tensor::of<double>({2, 2}, {1, 2, 3, 4});
  SafeTensors content;  // tensors may be named as files are
  const std::vector<std::string> names = {"x", "y:z", "a.npy", "b.csv", "c.json", "d.safetensors:e"};
  for (const std::string& name : names) content.tensors.emplace(name, matrix);
  for (const bool capitals : {false, true}) {
    const std::string npy = folder / (capitals ? "a.NPY" : "a.npy");
    const std::string tensors = folder / (capitals ? "a.SafeTensors" : "a.safetensors");
    write_npy(npy, matrix);
    write_safetensors(tensors, content);
    expect_equal(read_array(npy), matrix);
    expect_equal(read_array(folder.put(capitals ? "A.CSV" : "a.csv", "1,2\n3,4\n")), matrix);
    expect_equal(read_array(folder.put(capitals ? "a.Json" : "a.json", "[[1,2],[3,4]]")), matrix);
    for (const std::string& name : names) expect_equal(read_array(tensors + ":" + name), matrix);
  }
}

TEST(ReadArray, SaysWhatIsMissing) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  write_safetensors(path, {.tensors = {{"x", Tensor::zeros({1})}, {"y", Tensor::zeros({1})}}, .metadata = {}});
  const auto refusal = [](const std::string& bad) { return test::message_of<FormatError>([&] { read_array(bad); }); };
  EXPECT_EQ(refusal(path + ":z"), path + ": no tensor \"z\"; it has \"x\", \"y\"");
  for (const std::string& bad : {path, folder / "a.txt", std::string("npy"), std::string()}) {
    EXPECT_EQ(refusal(bad),
              bad + ": unknown ending; arrays are read from .npy, .csv, .json and FILE.safetensors:TENSOR");
  }
  EXPECT_THROW(read_array(folder / "none.npy"), IoError);
}

}  // namespace
}  // namespace qkv
