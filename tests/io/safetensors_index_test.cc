// The index of weights in several files: what it must say, and every rule that one can break.
#include <fmt/format.h>

#include "io/files_for_test.h"
#include "io/safetensors_header.h"

namespace qkv::io {
namespace {

TEST(SafetensorsIndex, SaysWhichFileHasWhichTensor) {
  const auto index = parse_safetensors_index(
      R"({"metadata": {"total_size": 12, "total_parameters": 3},
          "weight_map": {"b": "2.safetensors", "a": "1.safetensors", "c": "2.safetensors"}})",
      "index");
  EXPECT_EQ(index, (SafetensorsIndex{{"1.safetensors", {"a"}}, {"2.safetensors", {"b", "c"}}}));
}

TEST(SafetensorsIndex, MetadataMayLack) {
  EXPECT_EQ(parse_safetensors_index(R"({"weight_map": {"a": "1.safetensors"}})", "index").size(), 1u);
}

TEST(SafetensorsIndex, EveryBrokenRuleIsNamed) {
  const auto maps_to = [](const std::string& file) { return R"({"weight_map": {"a.b": )" + file + "}}"; };
  const std::string outside = "weight_map.\"a.b\" must be a file of the same folder";
  std::string many_files, many_tensors;
  for (int i = 0; i <= 512; ++i) many_files += fmt::format(R"({}"{}": "{}.safetensors")", i > 0 ? "," : "", i, i);
  for (int i = 0; i <= 100'000; ++i) many_tensors += fmt::format(R"({}"{}": "1.safetensors")", i > 0 ? "," : "", i);
  test::expect_refused(
      {{"", "not valid JSON"},
       {"[]", "the document must be an object, is array"},
       {"{}", "weight_map is missing"},
       {R"({"weight_map": []})", "weight_map must be an object, is array"},
       {R"({"weight_map": {}})", "weight_map must name at least one tensor"},
       {R"({"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}})", "key \"a\" appears twice"},
       {R"({"metadata": 3, "weight_map": {"a": "1.safetensors"}})", "metadata must be an object, is number"},
       {R"({"metadata": {"total_size": "3"}, "weight_map": {"a": "1.safetensors"}})",
        "metadata.total_size must be a number, is string"},
       {R"({"metadata": {"total_size": -3}, "weight_map": {"a": "1.safetensors"}})",
        "metadata.total_size must be 0 or more"},
       {maps_to("7"), "weight_map.\"a.b\" must be a string, is number"},
       {maps_to("\"\""), "weight_map.\"a.b\" must be a file name that ends with \".safetensors\""},
       {maps_to("\"..\""), "weight_map.\"a.b\" must be a file name that ends with \".safetensors\""},
       {maps_to("\"pytorch_model.bin\""), "must be a file name that ends with \".safetensors\""},
       {maps_to("\"../1.safetensors\""), outside},
       {maps_to("\"/1.safetensors\""), outside},
       {maps_to("\"below/1.safetensors\""), outside},
       {maps_to("\"below\\\\1.safetensors\""), outside},
       {maps_to("\"1\\u0000.safetensors\""), outside},
       {maps_to("\".safetensors\""), outside},
       {"{\"weight_map\": {" + many_files + "}}", "weight_map names more than 512 files"},
       {"{\"weight_map\": {" + many_tensors + "}}", "weight_map has more than 100000 tensors"},
       {std::string(16'000'001, ' '), "exceed the limit of 16000000"}},
      "model.safetensors.index.json", [](const std::string& path) { read_safetensors_index(path); });
}

}  // namespace
}  // namespace qkv::io
