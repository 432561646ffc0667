// Files of text: lines and pairs of them, matrices in CSV and JSON, and arrays by the ending of their path.
#include "io/files/files.h"
#include "io/files_for_test.h"
#include "qkv/text_lines.h"

namespace qkv::test {
namespace {

using std::string_literals::operator""s;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Parser = Tensor(std::string_view, const std::string&);

void expect_matrices(Parser parse, const std::vector<std::tuple<std::string, Dims, std::vector<double>>>& matrices) {
  for (const auto& [text, shape, values] : matrices) {
    SCOPED_TRACE(text);
    expect_equal(parse(text, "a"), Tensor::of<double>(shape, values));
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
  Refusals refusals = {{"no numbers", {"", "\n\n", "# 1,2\n", "x,y\n"}},
                       {"line 2 has 1 field, but line 1 has 2", {"1,2\n3\n"}},
                       {"line 4 has 3 fields, but line 2 has 2", {"x,y\n1,2\n\n3,4,5\n"}},
                       {"line 2 has 3 fields, but line 1 has 2", {"1,2\n3,4,\n"}},
                       {"line 1, column 2: \"\" is not a number", {"1,\n", "1,,2\n"}},
                       {"line 1, column 1: \"1e999\" does not fit in 64 bits", {"1e999,-1e999\n1,2\n"}},
                       {"line 1, column 1: \"\\\"1\\\"\" is not a number", {"\"1\",\"2\"\n1,2\n"}},
                       {"line 1, column 1: \"\" is not a number", {",\n1,2\n"}},
                       {"line 1, column 2: \"#x\" is not a number", {"1,#x\n"}},
                       {"line 1, column 1: \"\\xc3\\xa4\" is not a number", {"\xc3\xa4,2\n1,2\n"}},
                       {"line 2, column 2: \"x\" is not a number", {"1,2\n1,x\n"}},
                       {"line 2, column 1: \"\\\"1\\\"\" is not a number", {"1\n\"1\"\n"}},
                       {"line 2, column 1: \"1e999\" does not fit in 64 bits", {"1\n1e999\n"}},
                       {"line 2, column 1: \"1\\x00\" is not a number", {"1\n1\0\n"s}},
                       {"line 1, column 1: \"1\\x0d2\" is not a number", {"1\r2\r"}},
                       {"line 2, column 1: \"\\xff\" is not a number", {"1\n\xff\n"}},
                       {"xxx\"... is not a number", {"1\n" + std::string(100, 'x')}}};
  for (const std::string field : {"+-1", "++1", "+", "y", "1 2", "1;2", "0x10"}) {
    refusals.push_back({"line 2, column 1: \"" + field + "\" is not a number", {"x\n" + field + "\n1\n"}});
  }
  expect_all_refused(refusals, "bad.csv", read_csv);
}

TEST(JsonMatrix, ReadsNumbers) {
  expect_matrices(parse_json_matrix, {{"[[1, 2], [3, 4]]", {2, 2}, {1, 2, 3, 4}},
                                      {"[1, -2, 0.1]", {1, 3}, {1, -2, 0.1}},
                                      {"[[1],\n [2.5e-3],\n [-3]]\n", {3, 1}, {1, 2.5e-3, -3}},
                                      {R"(["inf", 1, "-inf"])", {1, 3}, {kInfinity, 1, -kInfinity}},
                                      {"[18446744073709551615, 1e300]", {1, 2}, {18446744073709551615.0, 1e300}}});
  const std::vector<double> values = values_of(parse_json_matrix(R"([["nan", -0.0, 0]])", "a.json"));
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_TRUE(std::signbit(values[1]) && !std::signbit(values[2]));
}

TEST(JsonMatrix, RefusesEveryBrokenRule) {
  const Refusals refusals = {{"not valid JSON at line 1, column 1", {""}},
                             {"not valid JSON at line 2, column 8", {"[[1, 2],\n [3, 4]"}},
                             {"not valid JSON at line 2, column 5", {"[[1, 2],\n [3 4]]"}},
                             {"not valid JSON", {"[1,]", "[NaN]", "[Infinity]", "[1] [2]"}},
                             {"not valid JSON at line 1, column 4: a zero byte", {"[1]\0"s}},
                             {"number out of range", {"[1e999]"}},
                             {"no numbers", {"[]"}},
                             {"row 1 is empty", {"[[]]"}},
                             {"row 2 is empty", {"[[1], []]"}},
                             {"row 2 has 1 numbers, but row 1 has 2", {"[[1, 2], [3]]"}},
                             {"row 2 has 2 numbers, but row 1 has 1", {"[[1], [2, 3]]"}},
                             {"a number outside the rows in row 1", {"1", "\"inf\""}},
                             {"a number outside the rows in row 2", {"[[1], 2]"}},
                             {"an object in row 1", {"{}"}},
                             {"an object in row 2", {"[[1], {\"a\": 2}]"}},
                             {"null in row 1", {"[null]"}},
                             {"true or false in row 1", {"[[true]]"}},
                             {"a string other than \"inf\", \"-inf\" and \"nan\" in row 1", {"[\"1\"]"}},
                             {"an array in row 1", {"[1, [2]]", "[[[1]]]", std::string(100'000, '[')}}};
  expect_all_refused(refusals, "bad.json", read_json_matrix);
}

TEST(ReadArray, TellsTheFormatByTheEnding) {
  const TemporaryFolder folder;
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
  const std::string path = folder / "b.safetensors";
  write_safetensors(path, {.tensors = {{"x", matrix}, {"y", matrix}}, .metadata = {}});
  EXPECT_EQ(message_of<FormatError>([&] { read_array(path + ":z"); }), path + ": no tensor \"z\"; it has \"x\", \"y\"");
  EXPECT_EQ(message_of<FormatError>([&] { read_array(path); }),
            path + ": which tensor? Write " + path + ":TENSOR; it has \"x\", \"y\"");
  // Of several tensors only the one that is asked for is read.
  write_safetensors(path, {.tensors = {{"x", matrix}, {"flags", Tensor::zeros({1}, Dtype::boolean)}}, .metadata = {}});
  std::string damaged = slurp(path);
  damaged.back() = 2;
  const std::string of_both = folder.put("c.safetensors", damaged);
  expect_equal(read_array(of_both + ":x"), matrix);
  EXPECT_THROW(read_array(of_both + ":flags"), FormatError);
  for (const std::string& bad : {folder / "a.txt", std::string("npy"), std::string()}) {
    EXPECT_EQ(message_of<FormatError>([&] { read_array(bad); }),
              bad + ": unknown ending; arrays are read from .npy, .csv, .json and FILE.safetensors:TENSOR");
  }
  EXPECT_THROW(read_array(folder / "none.npy"), IoError);
}

const std::string kMark = "\ufeff";

TEST(TextLines, AreTextsWithoutWhatSystemsAdd) {
  for (const std::string& line : {""s, "a b"s, "a\tb "s, "a\rb"s, "\u20ac \U0001F600"s}) {
    EXPECT_EQ(text_of_line(line, 1), line);
  }
  EXPECT_EQ(text_of_line("a\r", 1), "a");
  EXPECT_EQ(text_of_line("a\r\r", 1), "a\r");
  EXPECT_EQ(text_of_line(kMark, 1), "");
  EXPECT_EQ(text_of_line(kMark + kMark + "a\r", 1), kMark + "a");
  EXPECT_EQ(text_of_line(kMark + "a", 2), kMark + "a");  // there it is a character
  for (const std::string& line : {kMark + "a\u00a0b\r", "\xff\r"s, "a\0b"s}) {
    EXPECT_EQ(text_of_line(line, 1, {.exact = true}), line);
  }
}

// All 17 code points of category Zs, from UnicodeData.txt; beside them those that are none: zero width, line separator.
TEST(TextLines, SpacesOfUnicodeAreSpaces) {
  for (const char* space : {" ", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005",
                            "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u202f", "\u205f", "\u3000"}) {
    EXPECT_EQ(text_of_line("\u00e9" + std::string(space) + "b" + space, 3), "\u00e9 b ");
  }
  for (const char* other : {"\t", "\u0085", "\u180e", "\u200b", "\u2028", "\u2029", "\u2060", "\u3001"}) {
    EXPECT_EQ(text_of_line("a" + std::string(other), 3), "a" + std::string(other));
  }
}

TEST(TextLines, BytesThatAreNotUtf8AreRefusedByLine) {
  const std::pair<std::string, std::string> refused[] = {
      {"caf\xe9", "byte 4 (0xe9)"},          {"\u00e9\xff", "byte 3 (0xff)"}, {"\x80", "byte 1 (0x80)"},
      {"\xc0\xaf", "byte 1 (0xc0)"},          // longer than needed
      {"a\xed\xa0\x80", "byte 2 (0xed)"},     // half of a pair
      {"\xf4\x90\x80\x80", "byte 1 (0xf4)"},  // above U+10FFFF
      {"\xe2\x82", "byte 1 (0xe2)"}};         // cut short
  for (const auto& [line, place] : refused) {
    EXPECT_EQ(message_of<FormatError>([&] { text_of_line(line, 7); }),
              "line 7: " + place + " is not UTF-8, but text must be");
    EXPECT_EQ(text_of_line(line, 7, {.replace_invalid = true}), line);
  }
  EXPECT_EQ(text_of_line("\u00a0\xff", 7, {.replace_invalid = true}), " \xff");
  EXPECT_EQ(message_of<FormatError>([] { text_of_line(kMark + "\xff", 1, {}, "pairs.tsv"); }),
            "pairs.tsv: line 1: byte 4 (0xff) is not UTF-8, but text must be");
}

TEST(TextLines, ZeroBytesAreNoText) {
  for (const std::string& line : {"a\0b"s, "\u00e9\0"s}) {
    const std::string place = line[0] == 'a' ? "byte 2" : "byte 3";
    EXPECT_EQ(message_of<FormatError>([&] { text_of_line(line, 2); }),
              "line 2: " + place + " (0x00) is a zero byte, which text does not have; is it UTF-16?");
  }
  EXPECT_EQ(text_of_line("a\0b"s, 2, {.replace_invalid = true}), "a\ufffdb");
}

TEST(TextLines, ArgumentsAreReadAsFirstLines) {
  for (const std::string& line : {"a b"s, kMark + "a\u00a0b\r", "\u3000"s, kMark + kMark, "\r"s}) {
    EXPECT_EQ(text_of_argument(line), text_of_line(line, 1));
    EXPECT_EQ(text_of_argument(line, {.exact = true}), line);
  }
  EXPECT_EQ(text_of_argument("a\nb"), "a\nb");
  EXPECT_EQ(text_of_argument("caf\xe9", {.replace_invalid = true}), "caf\xe9");
  EXPECT_EQ(message_of<FormatError>([] { text_of_argument("caf\xe9"); }),
            "byte 4 (0xe9) is not UTF-8, but text must be");
  EXPECT_EQ(message_of<FormatError>([] { text_of_argument("a\0"s, {}, "here"); }),
            "here: byte 2 (0x00) is a zero byte, which text does not have; is it UTF-16?");
}

TEST(ReadPairs, OneALineAndNoOther) {
  const TemporaryFolder folder;
  const auto pairs = read_pairs(folder.put("a", "\ufeffYou\u00a0are welcome\tDe\u2003nada\r\n a \t b "));
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].source, "You are welcome");
  EXPECT_EQ(pairs[0].target, "De nada");
  EXPECT_EQ(pairs[1].source, " a ");
  EXPECT_EQ(pairs[1].target, " b ");
  EXPECT_TRUE(read_pairs(folder.put("b", "")).empty());
  const Refusals refusals = {{"line 2 must be a text, a tab and its translation", {"a\tb\nc\n"}},
                             {"line 1", {"a\tb\tc\n", "\tb", "a\t", "a\t\r\n"}},
                             {"line 2", {"a\tb\n\nc\td\n"}},
                             {"line 2: byte 6 (0xe9) is not UTF-8", {"a\tb\nc\tcaf\xe9\n"}}};
  expect_all_refused(refusals, "pairs", [](const std::string& path) { read_pairs(path); });
}

}  // namespace
}  // namespace qkv::test
