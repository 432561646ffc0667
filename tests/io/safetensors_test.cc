// safetensors files: round trips, files of the reference implementation, and every rule broken once.
#include <gtest/gtest.h>

#include <limits>

#include "io/files.h"
#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv {
namespace {

using std::string_literals::operator""s;
using test::counted;
using test::expect_equal;
using test::golden;
using test::Refusals;

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
  return bytes + rest;
}

std::string file(const std::string& header, std::size_t data_bytes) {
  return with_length(header.size(), header + std::string(data_bytes, '\0'));
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

// A file with the one tensor "a".
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets, std::size_t bytes = 4) {
  return file(R"({"a":)" + entry(dtype, shape, offsets) + "}", bytes);
}

// A file with the tensors "a" and "b", both U8.
std::string two(const std::string& shape_a, const std::string& offsets_a, const std::string& shape_b,
                const std::string& offsets_b, std::size_t bytes) {
  return file(R"({"a":)" + entry("U8", shape_a, offsets_a) + R"(,"b":)" + entry("U8", shape_b, offsets_b) + "}", bytes);
}

TEST(Safetensors, ReadsWhatTheReferenceImplementationWroteAndWhatItWroteItself) {
  SafeTensors content = read_safetensors(golden("all.safetensors"));
  EXPECT_EQ(content.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"quote", "\"\\\xe2\x80\xa8"}}));
  for (const auto& [name, dtype] : test::kNumpyTypes) expect_equal(content.tensors.at(name), counted({2, 3}, dtype));
  expect_equal(content.tensors.at("bf16"), counted({2, 3}, Dtype::bf16));
  EXPECT_EQ(content.tensors.at("bool").dtype(), Dtype::boolean);
  EXPECT_EQ(test::values_of(content.tensors.at("bool")), (std::vector<double>{0, 1, 1}));
  expect_equal(content.tensors.at("rank 0"), Tensor::of<float>({}, {7.0f}));
  expect_equal(content.tensors.at("empty"), Tensor::of<float>({0, 3}, {}));
  expect_equal(content.tensors.at("na\xc3\xafve \"name\"\n"), Tensor::of<float>({1}, {1.0f}));
  EXPECT_EQ(content.tensors.size(), 16u);
  EXPECT_TRUE(read_safetensors(golden("none.safetensors")).tensors.empty());

  const test::TemporaryFolder folder;
  content.metadata[""] = "\n\xc3\xaf";
  for (const Dims& shape : {Dims{5}, Dims{2, 1, 3}, Dims{2, 1, 3, 4}, Dims{0}, Dims{3, 0, 2}}) {
    content.tensors[to_string(shape)] = counted(shape, Dtype::u16);
  }
  write_safetensors(folder / "a.safetensors", content);
  const SafeTensors read = read_safetensors(folder / "a.safetensors");
  EXPECT_EQ(read.metadata, content.metadata);
  ASSERT_EQ(read.tensors.size(), content.tensors.size());
  for (const auto& [name, tensor] : content.tensors) expect_equal(read.tensors.at(name), tensor);
  write_safetensors(folder / "b.safetensors", read);
  EXPECT_EQ(test::slurp(folder / "b.safetensors"), test::slurp(folder / "a.safetensors"));
}

TEST(Safetensors, WritesTheBytesOfTheReferenceImplementation) {
  const test::TemporaryFolder folder;
  SafeTensors content;
  content.metadata = {{"format", "np"}};
  for (const auto& [name, shape] : {std::pair("b", Dims{2, 2}), {"a", {3}}, {"c", {}}, {"A", {0, 2}}}) {
    content.tensors[name] = counted(shape, Dtype::f32);
  }
  write_safetensors(folder / "a.safetensors", content);
  EXPECT_EQ(test::slurp(folder / "a.safetensors"), test::slurp(golden("f32.safetensors")));
}

TEST(Safetensors, WritesLargerElementsFirstThenByName) {
  const test::TemporaryFolder folder;
  SafeTensors content;
  for (const auto& [name, dtype] :
       {std::pair("a", Dtype::u8), {"z", Dtype::f64}, {"n", Dtype::f32}, {"m", Dtype::i32}}) {
    content.tensors[name] = counted({1}, dtype);
  }
  write_safetensors(folder / "a.safetensors", content);
  const std::string bytes = test::slurp(folder / "a.safetensors");
  const auto place = [&](const std::string& name) { return bytes.find('"' + name + '"'); };
  EXPECT_TRUE(place("z") < place("m") && place("m") < place("n") && place("n") < place("a")) << bytes;
  EXPECT_EQ((bytes.size() - 17) % 8, 0u);
}

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  const std::string longest = "{\"" + std::string(4096, 'n') + "\":" + entry("F32", "[]", "[0,4]") + "}";
  const std::pair<std::string, std::size_t> files[] = {{file("{}", 0), 0},
                                                       {file("{}  \n\t ", 0), 0},
                                                       {file(R"({"__metadata__":{}})", 0), 0},
                                                       {two("[1]", "[2,3]", "[2]", "[0,2]", 3), 2},
                                                       {two("[0]", "[2,2]", "[2]", "[0,2]", 2), 2},
                                                       {one("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]", 1), 1},
                                                       {file(longest, 4), 1}};
  for (const auto& [bytes, tensors] : files) EXPECT_EQ(io::parse_safetensors(bytes, "a").tensors.size(), tensors);
  const std::string nan("\0\0\xc0\x7f", 4);
  const SafeTensors content = io::parse_safetensors(one("F32", "[1]", "[0,4]", 0) + nan, "a");
  EXPECT_NE(content.tensors.at("a").data<float>()[0], content.tensors.at("a").data<float>()[0]);
}

// A value of every other kind where a file must have one of a kind.
TEST(Safetensors, RefusesOtherKinds) {
  struct Place {
    std::string before, after, fault, behind, wanted;
  };
  const std::string a = "tensor \"a\": ", shape = ", but must be an array of integers of 0 or more",
                    offsets = ", but must be an array of two integers of 0 or more";
  const Place places[] = {
      {R"({"a":)", "}", a, " where an object must be", "an object"},
      {R"({"a":{"dtype":)", "}}", a + "dtype is ", ", but must be a string", "a string"},
      {R"({"a":{"shape":)", "}}", a + "shape has ", shape, "an array"},
      {R"({"a":{"shape":[)", "]}}", a + "shape has ", shape, "a number"},
      {R"({"a":{"data_offsets":)", "}}", a + "data_offsets has ", offsets, "an array"},
      {R"({"a":{"data_offsets":[0,)", "]}}", a + "data_offsets has ", offsets, "a number"},
      {R"({"__metadata__":)", "}", "__metadata__ is ", ", but must be an object", "an object"},
      {R"({"__metadata__":{"a":)", "}}", "__metadata__: \"a\" is ", ", but must be a string", "a string"}};
  const std::map<std::string, std::string> kinds = {
      {"null", "null"},        {"true", "true or false"}, {"1", "a number"},  {"-1", "a negative number"},
      {"\"F32\"", "a string"}, {"[1]", "an array"},       {"{}", "an object"}};
  std::vector<test::Malformed> files;
  for (const Place& place : places) {
    for (const auto& [json, kind] : kinds) {
      if (kind == place.wanted) continue;
      files.push_back({file(place.before + json + place.after, 4), place.fault + kind + place.behind});
    }
  }
  test::expect_refused(files, "bad.safetensors", read_safetensors);
}

TEST(Safetensors, RefusesEveryBrokenRule) {
  const std::string f32 = entry("F32", "[1]", "[0,4]"), a = "tensor \"a\": ";
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  Refusals refusals = {
      {"0 bytes are too few for the length of the header", {""}},
      {"7 bytes are too few for the length of the header", {"1234567"}},
      {"header length 2 exceeds the 1 bytes that follow", {with_length(2, "{")}},
      {"header length 16000000 exceeds the 2 bytes that follow", {with_length(16'000'000, "{}")}},
      {"header length 16000001 exceeds the limit of 16000000", {with_length(16'000'001, "{}")}},
      {"exceeds the limit of 16000000",
       {with_length(kMost, "{}"), with_length(kMost - 7, "{}"), with_length(std::uint64_t{1} << 63, "{}")}},
      // dtype and elements
      {a + "dtype \"f32\" is unknown", {one("f32", "[1]", "[0,4]")}},
      {a + "dtype \"\" is unknown", {one("", "[1]", "[0,4]")}},
      {a + "dtype \"F33\" is unknown", {one("F33", "[0]", "[0,0]", 0)}},
      {a + "element 0 is the byte 2, but a bool must be 0 or 1", {one("BOOL", "[1]", "[0,1]", 0) + '\2'}},
      // shape
      {a + "shape has a negative number", {one("F32", "[-0]", "[0,4]")}},
      {a + "shape has a number that is not an integer of 64 bits",
       {one("F32", "[1.0]", "[0,4]"), one("F32", "[1e0]", "[0,4]"), one("F32", "[18446744073709551616]", "[0,4]")}},
      {"header: number out of range at line 1, column", {one("F32", "[1e999]", "[0,4]")}},
      {a + "shape has more than 16 dimensions", {one("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]")}},
      {"shape [4294967296, 4294967296] of F32 has too many elements",
       {one("F32", "[4294967296,4294967296]", "[0,0]", 0)}},
      {"has too many elements",
       {one("F32", "[4294967296,4294967296,0]", "[0,0]", 0), one("F32", "[0,4294967296,4294967296]", "[0,0]", 0),
        one("U8", "[9223372036854775808,0]", "[0,0]", 0), one("F64", "[2305843009213693952]", "[0,0]", 0),
        one("F64", "[18446744073709551615]", "[0,8]", 8)}},
      // data_offsets
      {a + "data_offsets needs two numbers", {one("F32", "[1]", "[]"), one("F32", "[1]", "[4]")}},
      {a + "data_offsets has more than two numbers", {one("F32", "[1]", "[0,4,4]")}},
      {a + "data_offsets has a number that is not an integer of 64 bits", {one("F32", "[1]", "[0.0,4]")}},
      {a + "data_offsets [4, 0] run backwards", {one("F32", "[1]", "[4,0]")}},
      {"run backwards", {one("F32", "[1]", "[18446744073709551615,3]")}},
      {a + "data_offsets [0, 8] reach beyond the 4 bytes of data", {one("F32", "[1]", "[0,8]")}},
      {"reach beyond the 4 bytes of data",
       {one("F32", "[1]", "[0,18446744073709551615]"), one("F32", "[1000000000000]", "[0,4000000000000]")}},
      {"data_offsets [0, 12] hold 12 bytes, but shape [2, 2] of F32 needs 16", {one("F32", "[2,2]", "[0,12]", 12)}},
      {"data_offsets [0, 0] hold 0 bytes, but shape [] of F32 needs 4", {one("F32", "[]", "[0,0]", 0)}},
      {"data_offsets [0, 4] hold 4 bytes, but shape [0] of F32 needs 0", {one("F32", "[0]", "[0,4]")}},
      {a + "data_offsets [1, 4] leave a hole after byte 0", {one("U8", "[3]", "[1,4]")}},
      {"the tensors hold 3 bytes, but the file has 4 bytes of data", {one("U8", "[3]", "[0,3]")}},
      {"the tensors hold 0 bytes, but the file has 1 bytes of data", {file("{}", 1)}},
      {"\"b\": data_offsets [2, 3] leave a hole after byte 1", {two("[1]", "[0,1]", "[1]", "[2,3]", 3)}},
      {"\"b\": data_offsets [1, 3] overlap what lies before byte 2", {two("[2]", "[0,2]", "[2]", "[1,3]", 3)}},
      {"data_offsets [0, 2] overlap what lies before byte 2", {two("[2]", "[0,2]", "[2]", "[0,2]", 2)}},
      {"\"b\": data_offsets [1, 1] overlap what lies before byte 3", {two("[3]", "[0,3]", "[0]", "[1,1]", 3)}}};
  const Refusals headers = {
      {"must begin with {", {"", " {}", "[]", "null", "\xef\xbb\xbf{}"}},
      {"not valid JSON at line 1, column 2", {"{"}},
      {"not valid JSON at line 1, column 3: a zero byte", {"{}\0"s}},
      {"a zero byte", {"{}\0{}"s}},
      {"not valid JSON",
       {"{\"a\"", "{}}", "{}{}", "{/**/}", "{'a':1}", "{\"a\":NaN}", "{\"a\":" + f32 + ",}", "{\"\xff\":" + f32 + "}",
        "{\"\xc0\xaf\":" + f32 + "}", "{\"\\ud800\":" + f32 + "}", "{\"a\nb\":" + f32 + "}",
        R"({"a":{"shape":[01]}})"}},
      {a + "dtype is missing", {"{\"a\":{}}", R"({"a":{"shape":[1],"data_offsets":[0,4]}})"}},
      {a + "shape is missing", {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})"}},
      {a + "data_offsets is missing", {R"({"a":{"dtype":"F32","shape":[1]}})"}},
      {a + "dtype appears twice", {R"({"a":{"dtype":"F32","dtype":"F32"}})"}},
      {a + "shape appears twice", {R"({"a":{"shape":[],"shape":[]}})"}},
      {a + "data_offsets appears twice", {R"({"a":{"data_offsets":[0,0],"data_offsets":[0,4]}})"}},
      {a + "unknown field \"Dtype\"", {R"({"a":{"Dtype":"F32"}})"}},
      {"tensor \"a\" appears twice",
       {"{\"a\":" + f32 + ",\"a\":" + f32 + "}", "{\"a\":" + f32 + ",\"\\u0061\":" + f32 + "}"}},
      {"name of 4097 bytes exceeds the limit of 4096", {"{\"" + std::string(4097, 'n') + "\":" + f32 + "}"}},
      {"tensor \"a\\x0a\\x00\\xc3\\xaf\": a number", {"{\"a\\n\\u0000\\u00ef\":1}"}},
      {"__metadata__: \"a\" appears twice", {R"({"__metadata__":{"a":"","a":""}})"}},
      {"__metadata__ appears twice", {R"({"__metadata__":{},"__metadata__":{}})"}},
      {a + "an array where an object must be", {"{\"a\":" + std::string(100'000, '[')}},
      {a + "shape has an array", {R"({"a":{"shape":)" + std::string(100'000, '[')}}};
  for (const auto& [message, all] : headers) {
    for (const std::string& header : all) refusals.push_back({message, {file(header, 4)}});
  }
  for (const std::string type :
       {"F4", "F6_E2M3", "F6_E3M2", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"}) {
    refusals.push_back({"dtype " + type + " is not supported", {one(type, "[8]", "[0,8]", 8)}});
  }
  std::string many = "{";
  for (int i = 0; i <= 100'000; ++i) {
    many += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  refusals.push_back({"header: more than 100000 tensors", {file(many + "}", 0)}});
  refusals.push_back({"is not supported", {test::slurp(golden("f8.safetensors"))}});
  test::expect_all_refused(refusals, "bad.safetensors", read_safetensors);
}

TEST(Safetensors, RefusesTruncationAtEveryByte) {
  for (const char* name : {"all.safetensors", "f32.safetensors", "none.safetensors"}) {
    const std::string bytes = test::slurp(golden(name));
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THROW(io::parse_safetensors(std::string_view(bytes).substr(0, length), name), FormatError) << length;
    }
  }
}

TEST(Safetensors, RefusesToWriteWhatTheFormatCannotHold) {
  const test::TemporaryFolder folder;
  struct Bad {
    std::string name, metadata, message;
  };
  for (const Bad& bad : {Bad{"__metadata__", "", "cannot be named __metadata__"},
                         {std::string(4097, 'a'), "", "exceeds the limit of 4096"},
                         {"\xff", "", "\"\\xff\" is not UTF-8"},
                         {"a", "\xc3", "\"\\xc3\" is not UTF-8"}}) {
    const SafeTensors content{.tensors = {{bad.name, counted({1}, Dtype::f32)}}, .metadata = {{"key", bad.metadata}}};
    const auto write = [&] { write_safetensors(folder / "a.safetensors", content); };
    EXPECT_NE(test::message_of<FormatError>(write).find(bad.message), std::string::npos) << bad.message;
  }
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace qkv
