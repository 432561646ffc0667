// JSON trees: values by field, and a refusal for each rule; the index of weights in several files.
#include "io/json/json_document.h"

#include "io/arrays/safetensors_header.h"
#include "io/files_for_test.h"

namespace qkv::io {
namespace {

// Wherever a value is, it is found, and its path said: behind containers of every kind, empty ones too.
TEST(JsonDocument, GivesValuesByKindAndPlace) {
  const JsonDocument document(
      R"({"z": [[], {}, [[1], {"y": [2, 3]}], "x\u00e9\n", -0.5], "": {"b": {}, "a": [true]}, "m": 18446744073709551615,
          "a": [1, 18446744073709551615, -2], "b\n": 1.5, "e": null, "f": 2e1})",
      "f");
  const JsonValue root = document.root();
  const std::vector<JsonValue> list = root["z"].elements(), numbers = root["a"].elements();
  ASSERT_EQ(list.size(), 5u);
  EXPECT_EQ(list[0].elements().size(), 0u);
  const JsonValue three = list[2].elements()[1]["y"].elements()[1], yes = root[""]["a"].elements()[0];
  EXPECT_EQ(three.integer(0, 9), 3);
  EXPECT_EQ(numbers[2].integer(-5, 5), -2);
  EXPECT_EQ(numbers[2].number(), -2.0);
  EXPECT_EQ(list[3].string(), "x\xC3\xA9\n");
  EXPECT_EQ(list[4].number(), -0.5);
  EXPECT_EQ(root["m"].number(), 18446744073709551615.0);
  EXPECT_TRUE(yes.boolean());
  EXPECT_FALSE(root.find("e"));  // null
  EXPECT_FALSE(root.find("y"));
  std::string keys;
  root.for_each_member([&](const std::string& key, const JsonValue&) { keys += key + "|"; });
  EXPECT_EQ(keys, "|a|b\n|e|f|m|z|");
  const JsonDocument of_array("[[0], null]", "f");
  const std::pair<std::string, std::function<void()>> refusals[] = {
      {"x is missing", [&] { root["x"]; }},
      {"a must be a string, is array", [&] { root["a"].string(); }},
      {"a[0] is 1, must be 2 to 9", [&] { numbers[0].integer(2, 9); }},
      {"a[1] is 18446744073709551615, must be 0 to 9", [&] { numbers[1].integer(0, 9); }},
      {"a[1] is 18446744073709551615, must be -9 to 9", [&] { numbers[1].integer(-9, 9); }},  // with a sign it is -1
      {"\"b\\x0a\" must be an integer, is 1.5", [&] { root["b\n"].integer(0, 9); }},
      {"f must be an integer written without a point or an exponent, is 20", [&] { root["f"].integer(0, 90); }},
      {"z[3] must be an integer, is string", [&] { list[3].integer(0, 9); }},
      {"the document must be an array, is object", [&] { root.elements(); }},
      {"z[2][1].y[1] must be a string, is number", [&] { three.string(); }},
      {"z[1].x is missing", [&] { list[1]["x"]; }},
      {"\"\".a[0] must be a number, is boolean", [&] { yes.number(); }},
      {"\"\".b must be an array, is object", [&] { root[""]["b"].elements(); }},
      {"[1] must be true or false, is null", [&] { of_array.root().elements()[1].boolean(); }}};
  for (const auto& [message, call] : refusals) EXPECT_EQ(test::message_of<FormatError>(call), "f: " + message);
}

TEST(JsonDocument, HasBounds) {
  constexpr std::size_t kMost = 4 << 20;
  const std::string open(32, '['), close(32, ']'), long_one(kMost, 'x'), spaces(kMost, ' '), digits(kMost, '1'),
      quotes = std::string(kMost - 2, 'x') + "\\\"";
  std::string many = "[0", numbers = "[0";
  for (int i = 0; i < 2'499'998; ++i) many += ",0";                // with the list itself 2.5 million
  while (numbers.size() <= kMost / 8) numbers += ",100000000000";  // values next to each other are no run
  for (const std::string& good : {open + close, std::string("[\"\"]"), std::string(R"({"": 1})"), many + "]",
                                  std::string(R"({"a": {"a": [{"a": 1}, {"a": 2}]}})"), "[\"" + long_one + "\"]",
                                  "[" + spaces.substr(1) + "1]", "[\"" + quotes + "\"]", numbers + "]"}) {
    JsonDocument(good, "f");
  }
  const std::string run = "a string, number or white space of more than 4194304 bytes at line 1, column ";
  const std::pair<std::string, std::string> refusals[] = {
      {"nested deeper than 32", "[" + open + close + "]"},
      {"more than 2500000 values", many + ",0]"},
      {"key \"a\" appears twice", R"({"a": 1, "a": 2})"},
      {"key \"a\" appears twice", R"({"b": {"c": [], "a": {"x": 1}, "b": 0, "a": null}})"},
      {"key \"a\" appears twice", R"([{"\u0061": 1, "b": {}, "a": 2}])"},
      {run + "3", "[\"x" + long_one + "\"]"},
      {run + "3", "[\"" + quotes + "x\"]"},
      {run + "2", "[" + spaces + " 1]"},
      {run + "2", "[0." + digits + "]"},
      {"not valid JSON at line 1, column 1", ""},
      {"not valid JSON at line 1, column 1", "\xFF\xFE{"},
      {"not valid JSON at line 1, column 3", "{\"\xC0\x80\": 1}"},
      {"not valid JSON at line 1, column 4", "{} {}"},
      {"not valid JSON at line 1, column 5", "[\"a\\"},
      {"not valid JSON at line 1, column 3: a zero byte", std::string("{}\0", 3)},
      {"number out of range at line 1, column 20", "{\"vocab_size\": 1e999}"}};
  for (const auto& [message, text] : refusals) {
    EXPECT_EQ(test::message_of<FormatError>([&, &bad = text] { JsonDocument(bad, "f"); }), "f: " + message);
  }
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

TEST(SafetensorsIndex, SaysWhichFileHasWhichTensor) {
  const std::string map = R"("weight_map": {"b": "2.safetensors", "a": "1.safetensors", "c": "2.safetensors"}})";
  for (const std::string begin : {"{", R"({"metadata": {"total_size": 12, "total_parameters": 3}, )"}) {
    EXPECT_EQ(parse_safetensors_index(begin + map, "index"),
              (SafetensorsIndex{{"1.safetensors", {"a"}}, {"2.safetensors", {"b", "c"}}}));
  }
}

TEST(SafetensorsIndex, EveryBrokenRuleIsNamed) {
  const auto maps_to = [](const std::string& file) { return R"({"weight_map": {"a.b": ")" + file + "\"}}"; };
  const auto with_metadata = [](const std::string& metadata) {
    return R"({"metadata": )" + metadata + R"(, "weight_map": {"a": "1.safetensors"}})";
  };
  std::string many_files, many_tensors;
  for (int i = 0; i <= 512; ++i) many_files += fmt::format(R"({}"{}": "{}.safetensors")", i > 0 ? "," : "", i, i);
  for (int i = 0; i <= 100'000; ++i) many_tensors += fmt::format(R"({}"{}": "1.safetensors")", i > 0 ? "," : "", i);
  const test::Refusals refusals = {
      {"not valid JSON", {""}},
      {"the document must be an object, is array", {"[]"}},
      {"weight_map is missing", {"{}"}},
      {"weight_map must be an object, is array", {R"({"weight_map": []})"}},
      {"weight_map must name at least one tensor", {R"({"weight_map": {}})"}},
      {"key \"a\" appears twice", {R"({"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}})"}},
      {"metadata must be an object, is number", {with_metadata("3")}},
      {"metadata.total_size must be a number, is string", {with_metadata(R"({"total_size": "3"})")}},
      {"metadata.total_size must be 0 or more", {with_metadata(R"({"total_size": -3})")}},
      {"weight_map.\"a.b\" must be a string, is number", {R"({"weight_map": {"a.b": 7}})"}},
      {"weight_map names more than 512 files", {"{\"weight_map\": {" + many_files + "}}"}},
      {"weight_map has more than 100000 tensors", {"{\"weight_map\": {" + many_tensors + "}}"}},
      {"exceed the limit of 16000000", {std::string(16'000'001, ' ')}},
      {"\"a.b\" must be a file name that ends with \".safetensors\"",
       {maps_to(""), maps_to(".."), maps_to("pytorch_model.bin")}},
      {"weight_map.\"a.b\" must be a file of the same folder",
       {maps_to("../1.safetensors"), maps_to("/1.safetensors"), maps_to("below/1.safetensors"),
        maps_to("below\\\\1.safetensors"), maps_to("1\\u0000.safetensors"), maps_to(".safetensors")}}};
  test::expect_all_refused(refusals, "index.json", [](const std::string& path) { read_safetensors_index(path); });
}

}  // namespace
}  // namespace qkv::io
