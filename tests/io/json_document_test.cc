// JSON trees: values by field, and a refusal for each rule.
#include "io/json_document.h"

#include <gtest/gtest.h>

#include <functional>

#include "qkv/error.h"

namespace qkv::io {
namespace {

std::string refusal(const std::function<void()>& run) {
  try {
    run();
  } catch (const FormatError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(JsonDocument, GivesValuesByKind) {
  const JsonDocument document(R"({"a": [1, -2], "b": {"c": "x"}, "d": true, "e": null})", "f");
  const JsonValue root = document.root();
  EXPECT_EQ(root["a"].elements()[1].integer(-5, 5), -2);
  EXPECT_EQ(root["b"]["c"].string(), "x");
  EXPECT_EQ(root["a"].elements()[1].number(), -2.0);
  EXPECT_TRUE(root["d"].boolean());
  EXPECT_FALSE(root.find("e"));
  EXPECT_FALSE(root.find("z"));
  std::string keys;
  root.for_each_member([&](const std::string& key, const JsonValue&) { keys += key; });
  EXPECT_EQ(keys, "abde");
}

TEST(JsonDocument, NamesFileFieldAndRule) {
  const JsonDocument document(R"({"a": [1, 18446744073709551615], "b\n": 1.5})", "f");
  const JsonValue root = document.root();
  EXPECT_EQ(refusal([&] { root["x"]; }), "f: x is missing");
  EXPECT_EQ(refusal([&] { root["a"].string(); }), "f: a must be a string, is array");
  EXPECT_EQ(refusal([&] { root["a"].elements()[0].integer(2, 9); }), "f: a[0] is 1, must be 2 to 9");
  EXPECT_EQ(refusal([&] { root["a"].elements()[1].integer(0, 9); }), "f: a[1] is 18446744073709551615, must be 0 to 9");
  // As a signed number it would be -1.
  EXPECT_EQ(refusal([&] { root["a"].elements()[1].integer(-9, 9); }),
            "f: a[1] is 18446744073709551615, must be -9 to 9");
  EXPECT_EQ(refusal([&] { root["b\n"].integer(0, 9); }), "f: \"b\\x0a\" must be an integer, is number");
  EXPECT_EQ(refusal([&] { root.elements(); }), "f: the document must be an array, is object");
}

TEST(JsonDocument, BoundsDepthAndCount) {
  const std::string open(32, '['), close(32, ']');
  EXPECT_EQ(refusal([&] { JsonDocument(open + close, "f"); }), "accepted");
  EXPECT_EQ(refusal([&] { JsonDocument("[" + open + close + "]", "f"); }), "f: nested deeper than 32");
  std::string many = "[0";
  for (int i = 0; i < 999'998; ++i) many += ",0";  // with the list itself a million
  EXPECT_EQ(refusal([&] { JsonDocument(many + "]", "f"); }), "accepted");
  EXPECT_EQ(refusal([&] { JsonDocument(many + ",0]", "f"); }), "f: more than 1000000 values");
  for (const char* twice : {R"({"a": 1, "a": 2})", R"({"b": {"c": [], "a": {"x": 1}, "b": 0, "a": null}})",
                            R"([{"\u0061": 1, "b": {}, "a": 2}])"}) {
    EXPECT_EQ(refusal([&] { JsonDocument(twice, "f"); }), "f: key \"a\" appears twice");
  }
  EXPECT_EQ(refusal([&] { JsonDocument(R"({"a": {"a": [{"a": 1}, {"a": 2}]}})", "f"); }), "accepted");
}

// Wherever a value is, it is found, and its path said: behind containers of every kind, empty ones too.
TEST(JsonDocument, FindsValuesBehindOthers) {
  const JsonDocument document(
      R"({"z": [[], {}, [[1], {"y": [2, 3]}], "x\u00e9\n", -0.5], "": {"b": {}, "a": [true]}, "m": 18446744073709551615})",
      "f");
  const JsonValue root = document.root();
  const std::vector<JsonValue> list = root["z"].elements();
  ASSERT_EQ(list.size(), 5u);
  EXPECT_EQ(list[0].elements().size(), 0u);
  EXPECT_EQ(list[2].elements()[1]["y"].elements()[1].integer(0, 9), 3);
  EXPECT_EQ(list[3].string(), "x\xC3\xA9\n");
  EXPECT_EQ(list[4].number(), -0.5);
  EXPECT_EQ(root["m"].number(), 18446744073709551615.0);
  EXPECT_TRUE(root[""]["a"].elements()[0].boolean());
  EXPECT_EQ(refusal([&] { list[2].elements()[1]["y"].elements()[1].string(); }),
            "f: z[2][1].y[1] must be a string, is number");
  EXPECT_EQ(refusal([&] { list[1]["x"]; }), "f: z[1].x is missing");
  EXPECT_EQ(refusal([&] { root[""]["a"].elements()[0].number(); }), "f: \"\".a[0] must be a number, is boolean");
  EXPECT_EQ(refusal([&] { root[""]["b"].elements(); }), "f: \"\".b must be an array, is object");
  EXPECT_EQ(refusal([&] { JsonDocument("[[0], null]", "f").root().elements()[1].boolean(); }),
            "f: [1] must be true or false, is null");
}

TEST(JsonDocument, ComparesWithJson) {
  const JsonDocument document(R"({"a": [1, -1, 0.5, "1", true, null, {"x": 1, "y": [2]}, [], 18446744073709551615]})",
                              "f");
  const std::vector<JsonValue> values = document.root()["a"].elements();
  const std::vector<std::string> same = {
      "1.0", "-1", "5e-1", "\"1\"", "true", "null", R"({"y": [2.0], "x": 1})", "[ ]", "18446744073709551615"};
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = 0; j < same.size(); ++j) EXPECT_EQ(values[i].is(same[j]), i == j) << i << " " << same[j];
  }
  for (const char* other :
       {R"({"x": 1, "y": [2, 3]})", R"({"x": 1})", R"({"x": 1, "z": [2]})", R"({"x": 1, "y": [3]})"}) {
    EXPECT_FALSE(values[6].is(other)) << other;
  }
  EXPECT_TRUE(
      document.root().is(R"({"a": [1, -1, 0.5, "1", true, null, {"x": 1, "y": [2]}, [], 18446744073709551615]})"));
}

TEST(JsonDocument, BoundsStringsNumbersAndWhiteSpace) {
  constexpr std::size_t kMost = 4 << 20;
  const std::string long_one(kMost, 'x'), spaces(kMost, ' '), quotes = std::string(kMost - 2, 'x') + "\\\"";
  for (const std::string& text : {"[\"" + long_one + "\"]", "[" + spaces.substr(1) + "1]", "[\"" + quotes + "\"]"}) {
    EXPECT_EQ(refusal([&] { JsonDocument(text, "f"); }), "accepted");
  }
  const std::string rule = "f: a string, number or white space of more than 4194304 bytes at line 1, column ";
  EXPECT_EQ(refusal([&] { JsonDocument("[\"x" + long_one + "\"]", "f"); }), rule + "3");
  EXPECT_EQ(refusal([&] { JsonDocument("[\"" + quotes + "x\"]", "f"); }), rule + "3");
  EXPECT_EQ(refusal([&] { JsonDocument("[" + spaces + " 1]", "f"); }), rule + "2");
  EXPECT_EQ(refusal([&] { JsonDocument("[0." + std::string(kMost, '1') + "]", "f"); }), rule + "2");
  EXPECT_EQ(refusal([&] { JsonDocument("[\"a\\", "f"); }), "f: not valid JSON at line 1, column 5");
  std::string numbers = "[0";  // values next to each other are no run
  while (numbers.size() <= kMost / 8) numbers += ",100000000000";
  EXPECT_EQ(refusal([&] { JsonDocument(numbers + "]", "f"); }), "accepted");
}

}  // namespace
}  // namespace qkv::io
