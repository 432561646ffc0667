// JSON trees: values by field, and a refusal for each rule; the index of weights in several files.
#include "io/json_document.h"

#include <fmt/format.h>

#include <functional>

#include "io/files_for_test.h"
#include "io/safetensors_index.h"

namespace qkv::io {
namespace {

std::string refusal(const std::function<void()>& run) { return test::message_of<FormatError>(run); }

std::string refused_text(const std::string& text) {
  return refusal([&] { JsonDocument(text, "f"); });
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

// Wherever a value is, it is found, and its path said: behind containers of every kind, empty ones too.
TEST(JsonDocument, FindsValuesBehindOthersAndNamesTheirPlace) {
  const JsonDocument document(
      R"({"z": [[], {}, [[1], {"y": [2, 3]}], "x\u00e9\n", -0.5], "": {"b": {}, "a": [true]}, "m": 18446744073709551615,
          "a": [1, 18446744073709551615], "b\n": 1.5})",
      "f");
  const JsonValue root = document.root();
  const std::vector<JsonValue> list = root["z"].elements(), numbers = root["a"].elements();
  ASSERT_EQ(list.size(), 5u);
  EXPECT_EQ(list[0].elements().size(), 0u);
  const JsonValue three = list[2].elements()[1]["y"].elements()[1], yes = root[""]["a"].elements()[0];
  EXPECT_EQ(three.integer(0, 9), 3);
  EXPECT_EQ(list[3].string(), "x\xC3\xA9\n");
  EXPECT_EQ(list[4].number(), -0.5);
  EXPECT_EQ(root["m"].number(), 18446744073709551615.0);
  EXPECT_TRUE(yes.boolean());
  const std::pair<std::string, std::function<void()>> refusals[] = {
      {"f: x is missing", [&] { root["x"]; }},
      {"f: a must be a string, is array", [&] { root["a"].string(); }},
      {"f: a[0] is 1, must be 2 to 9", [&] { numbers[0].integer(2, 9); }},
      {"f: a[1] is 18446744073709551615, must be 0 to 9", [&] { numbers[1].integer(0, 9); }},
      {"f: a[1] is 18446744073709551615, must be -9 to 9", [&] { numbers[1].integer(-9, 9); }},  // with a sign it is -1
      {"f: \"b\\x0a\" must be an integer, is number", [&] { root["b\n"].integer(0, 9); }},
      {"f: the document must be an array, is object", [&] { root.elements(); }},
      {"f: z[2][1].y[1] must be a string, is number", [&] { three.string(); }},
      {"f: z[1].x is missing", [&] { list[1]["x"]; }},
      {"f: \"\".a[0] must be a number, is boolean", [&] { yes.number(); }},
      {"f: \"\".b must be an array, is object", [&] { root[""]["b"].elements(); }},
      {"f: [1] must be true or false, is null",
       [] { JsonDocument("[[0], null]", "f").root().elements()[1].boolean(); }}};
  for (const auto& [message, call] : refusals) EXPECT_EQ(refusal(call), message);
}

TEST(JsonDocument, BoundsDepthAndCount) {
  const std::string open(32, '['), close(32, ']');
  JsonDocument(open + close, "f");
  EXPECT_EQ(refused_text("[" + open + close + "]"), "f: nested deeper than 32");
  std::string many = "[0";
  for (int i = 0; i < 999'998; ++i) many += ",0";  // with the list itself a million
  JsonDocument(many + "]", "f");
  EXPECT_EQ(refused_text(many + ",0]"), "f: more than 1000000 values");
  for (const char* twice : {R"({"a": 1, "a": 2})", R"({"b": {"c": [], "a": {"x": 1}, "b": 0, "a": null}})",
                            R"([{"\u0061": 1, "b": {}, "a": 2}])"}) {
    EXPECT_EQ(refused_text(twice), "f: key \"a\" appears twice");
  }
  JsonDocument(R"({"a": {"a": [{"a": 1}, {"a": 2}]}})", "f");
}

TEST(JsonDocument, ComparesWithJson) {
  const std::string text = R"({"a": [1, -1, 0.5, "1", true, null, {"x": 1, "y": [2]}, [], 18446744073709551615]})";
  const JsonDocument document(text, "f");
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
  EXPECT_TRUE(document.root().is(text));
}

TEST(JsonDocument, BoundsStringsNumbersAndWhiteSpace) {
  constexpr std::size_t kMost = 4 << 20;
  const std::string long_one(kMost, 'x'), spaces(kMost, ' '), quotes = std::string(kMost - 2, 'x') + "\\\"";
  std::string numbers = "[0";  // values next to each other are no run
  while (numbers.size() <= kMost / 8) numbers += ",100000000000";
  for (const std::string& text :
       {"[\"" + long_one + "\"]", "[" + spaces.substr(1) + "1]", "[\"" + quotes + "\"]", numbers + "]"}) {
    JsonDocument(text, "f");
  }
  const std::string rule = "f: a string, number or white space of more than 4194304 bytes at line 1, column ";
  EXPECT_EQ(refused_text("[\"x" + long_one + "\"]"), rule + "3");
  EXPECT_EQ(refused_text("[\"" + quotes + "x\"]"), rule + "3");
  EXPECT_EQ(refused_text("[" + spaces + " 1]"), rule + "2");
  EXPECT_EQ(refused_text("[0." + std::string(kMost, '1') + "]"), rule + "2");
  EXPECT_EQ(refused_text("[\"a\\"), "f: not valid JSON at line 1, column 5");
}

TEST(SafetensorsIndex, SaysWhichFileHasWhichTensor) {
  for (const char* metadata : {"", R"("metadata": {"total_size": 12, "total_parameters": 3},)"}) {
    const auto index = parse_safetensors_index(
        fmt::format(R"({{{}"weight_map": {{"b": "2.safetensors", "a": "1.safetensors", "c": "2.safetensors"}}}})",
                    metadata),
        "index");
    EXPECT_EQ(index, (SafetensorsIndex{{"1.safetensors", {"a"}}, {"2.safetensors", {"b", "c"}}}));
  }
}

TEST(SafetensorsIndex, EveryBrokenRuleIsNamed) {
  const auto maps_to = [](const std::string& file) { return R"({"weight_map": {"a.b": )" + file + "}}"; };
  const auto with_metadata = [](const std::string& metadata) {
    return R"({"metadata": )" + metadata + R"(, "weight_map": {"a": "1.safetensors"}})";
  };
  std::string many_files, many_tensors;
  for (int i = 0; i <= 512; ++i) many_files += fmt::format(R"({}"{}": "{}.safetensors")", i > 0 ? "," : "", i, i);
  for (int i = 0; i <= 100'000; ++i) many_tensors += fmt::format(R"({}"{}": "1.safetensors")", i > 0 ? "," : "", i);
  std::vector<test::Malformed> files = {
      {"", "not valid JSON"},
      {"[]", "the document must be an object, is array"},
      {"{}", "weight_map is missing"},
      {R"({"weight_map": []})", "weight_map must be an object, is array"},
      {R"({"weight_map": {}})", "weight_map must name at least one tensor"},
      {R"({"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}})", "key \"a\" appears twice"},
      {with_metadata("3"), "metadata must be an object, is number"},
      {with_metadata(R"({"total_size": "3"})"), "metadata.total_size must be a number, is string"},
      {with_metadata(R"({"total_size": -3})"), "metadata.total_size must be 0 or more"},
      {maps_to("7"), "weight_map.\"a.b\" must be a string, is number"},
      {"{\"weight_map\": {" + many_files + "}}", "weight_map names more than 512 files"},
      {"{\"weight_map\": {" + many_tensors + "}}", "weight_map has more than 100000 tensors"},
      {std::string(16'000'001, ' '), "exceed the limit of 16000000"}};
  for (const char* name : {"", "..", "pytorch_model.bin"}) {
    files.push_back({maps_to(fmt::format("\"{}\"", name)), "must be a file name that ends with \".safetensors\""});
  }
  for (const char* name : {"../1", "/1", "below/1", "below\\\\1", "1\\u0000", ""}) {
    files.push_back(
        {maps_to(fmt::format("\"{}.safetensors\"", name)), "weight_map.\"a.b\" must be a file of the same folder"});
  }
  test::expect_refused(files, "model.safetensors.index.json",
                       [](const std::string& path) { read_safetensors_index(path); });
}

}  // namespace
}  // namespace qkv::io
