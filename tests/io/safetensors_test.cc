// safetensors files: round trips, files of the reference implementation, and every rule broken once.
#include <gtest/gtest.h>

#include <limits>

#include "io/files_for_test.h"
#include "io/parse.h"
#include "qkv/files.h"

namespace qkv {
namespace {

using test::counted;
using test::expect_equal;
using test::golden;
using test::Malformed;

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
  return bytes + rest;
}

std::string file(const std::string& header, std::size_t data_bytes) {
  return with_length(header.size(), header + std::string(data_bytes, '\0'));
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

// A file with the one tensor "a".
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets, std::size_t bytes) {
  return file(R"({"a":)" + entry('"' + dtype + '"', shape, offsets) + "}", bytes);
}

// A file with the tensors "a" and "b", both U8.
std::string two(const std::string& shape_a, const std::string& offsets_a, const std::string& shape_b,
                const std::string& offsets_b, std::size_t bytes) {
  const std::string a = entry(R"("U8")", shape_a, offsets_a), b = entry(R"("U8")", shape_b, offsets_b);
  return file(R"({"a":)" + a + R"(,"b":)" + b + "}", bytes);
}

// As NumPy names them, in all.safetensors.
const std::pair<const char*, Dtype> kNamedDtypes[] = {{"f2", Dtype::f16}, {"f4", Dtype::f32}, {"f8", Dtype::f64},
                                                      {"i1", Dtype::i8},  {"i2", Dtype::i16}, {"i4", Dtype::i32},
                                                      {"i8", Dtype::i64}, {"u1", Dtype::u8},  {"u2", Dtype::u16},
                                                      {"u4", Dtype::u32}, {"u8", Dtype::u64}, {"bf16", Dtype::bf16}};

TEST(Safetensors, RoundTripOfEveryTypeAndRank) {
  const test::TemporaryFolder folder;
  SafeTensors content;
  content.metadata = {{"format", "qkv"}, {"", "\"\\\n\xc3\xaf"}};
  for (const auto& [name, dtype] : kNamedDtypes) {
    for (const Dims& shape : {Dims{}, Dims{5}, Dims{2, 3}, Dims{2, 1, 3}, Dims{2, 1, 3, 4}, Dims{0}, Dims{3, 0, 2}}) {
      content.tensors[name + to_string(shape)] = counted(shape, dtype);
    }
  }
  write_safetensors(folder / "a.safetensors", content);
  const SafeTensors read = read_safetensors(folder / "a.safetensors");
  EXPECT_EQ(read.metadata, content.metadata);
  ASSERT_EQ(read.tensors.size(), content.tensors.size());
  for (const auto& [name, tensor] : content.tensors) expect_equal(read.tensors.at(name), tensor);
  write_safetensors(folder / "b.safetensors", read);
  EXPECT_EQ(test::slurp(folder / "b.safetensors"), test::slurp(folder / "a.safetensors"));
}

TEST(Safetensors, ReadsWhatTheReferenceImplementationWrote) {
  const SafeTensors content = read_safetensors(golden("all.safetensors"));
  EXPECT_EQ(content.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"quote", "\"\\\xe2\x80\xa8"}}));
  for (const auto& [name, dtype] : kNamedDtypes) {
    expect_equal(content.tensors.at(name), counted({2, 3}, dtype));
  }
  EXPECT_EQ(content.tensors.at("bool").dtype(), Dtype::boolean);
  EXPECT_EQ(test::values_of(content.tensors.at("bool")), (std::vector<double>{0, 1, 1}));
  expect_equal(content.tensors.at("rank 0"), Tensor::of<float>({}, {7.0f}));
  expect_equal(content.tensors.at("empty"), Tensor::of<float>({0, 3}, {}));
  expect_equal(content.tensors.at("na\xc3\xafve \"name\"\n"), Tensor::of<float>({1}, {1.0f}));
  EXPECT_EQ(content.tensors.size(), 16u);
  EXPECT_TRUE(read_safetensors(golden("none.safetensors")).tensors.empty());
}

TEST(Safetensors, WritesTheBytesOfTheReferenceImplementation) {
  const test::TemporaryFolder folder;
  SafeTensors content;
  content.metadata = {{"format", "np"}};
  content.tensors["b"] = counted({2, 2}, Dtype::f32);
  content.tensors["a"] = counted({3}, Dtype::f32);
  content.tensors["c"] = counted({}, Dtype::f32);
  content.tensors["A"] = counted({0, 2}, Dtype::f32);
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
  const std::string name(4096, 'n');
  const std::string longest = "{\"" + name + "\":" + entry("\"F32\"", "[]", "[0,4]") + "}";
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
std::vector<Malformed> files_of_other_kinds() {
  struct Place {
    std::string before, after, fault, behind, wanted;
  };
  const std::string a = "tensor \"a\": ", integers = " of integers of 0 or more", two = " of two integers of 0 or more";
  const Place places[] = {
      {R"({"a":)", "}", a, " where an object must be", "an object"},
      {R"({"a":{"dtype":)", "}}", a + "dtype is ", ", but must be a string", "a string"},
      {R"({"a":{"shape":)", "}}", a + "shape has ", ", but must be an array" + integers, "an array"},
      {R"({"a":{"shape":[)", "]}}", a + "shape has ", ", but must be an array" + integers, "a number"},
      {R"({"a":{"data_offsets":)", "}}", a + "data_offsets has ", ", but must be an array" + two, "an array"},
      {R"({"a":{"data_offsets":[0,)", "]}}", a + "data_offsets has ", ", but must be an array" + two, "a number"},
      {R"({"__metadata__":)", "}", "__metadata__ is ", ", but must be an object", "an object"},
      {R"({"__metadata__":{"a":)", "}}", "__metadata__: \"a\" is ", ", but must be a string", "a string"}};
  const std::pair<std::string, std::string> kinds[] = {
      {"null", "null"},        {"true", "true or false"}, {"1", "a number"},  {"-1", "a negative number"},
      {"\"F32\"", "a string"}, {"[1]", "an array"},       {"{}", "an object"}};
  std::vector<Malformed> files;
  for (const Place& place : places) {
    for (const auto& [json, kind] : kinds) {
      if (kind == place.wanted) continue;
      files.push_back({file(place.before + json + place.after, 4), place.fault + kind + place.behind});
    }
  }
  return files;
}

TEST(Safetensors, RefusesEveryBrokenRule) {
  const std::string f32 = entry("\"F32\"", "[1]", "[0,4]"), a = "tensor \"a\": ";
  const std::string no_integer = a + "shape has a number that is not an integer of 64 bits";
  std::vector<Malformed> files = {
      {"", "0 bytes are too few for the length of the header"},
      {"1234567", "7 bytes are too few for the length of the header"},
      {with_length(2, "{"), "header length 2 exceeds the 1 bytes that follow"},
      {with_length(16'000'000, "{}"), "header length 16000000 exceeds the 2 bytes that follow"},
      {with_length(16'000'001, "{}"), "header length 16000001 exceeds the limit of 16000000"},
      {with_length(std::numeric_limits<std::uint64_t>::max(), "{}"), "exceeds the limit of 16000000"},
      {with_length(std::numeric_limits<std::uint64_t>::max() - 7, "{}"), "exceeds the limit of 16000000"},
      {with_length(std::uint64_t{1} << 63, "{}"), "exceeds the limit of 16000000"},
      {file("{", 0), "not valid JSON at line 1, column 2"},
      {file(std::string("{}\0", 3), 0), "not valid JSON at line 1, column 3: a zero byte"},
      {file(std::string("{}\0{}", 5), 0), "a zero byte"},
      {file("{\"a\":{}}", 0), a + "dtype is missing"},
      {file(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), a + "dtype is missing"},
      {file(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), a + "shape is missing"},
      {file(R"({"a":{"dtype":"F32","shape":[1]}})", 4), a + "data_offsets is missing"},
      {file(R"({"a":{"dtype":"F32","dtype":"F32"}})", 4), a + "dtype appears twice"},
      {file(R"({"a":{"shape":[],"shape":[]}})", 4), a + "shape appears twice"},
      {file(R"({"a":{"data_offsets":[0,0],"data_offsets":[0,4]}})", 4), a + "data_offsets appears twice"},
      {file(R"({"a":{"Dtype":"F32"}})", 4), a + "unknown field \"Dtype\""},
      {file("{\"a\":" + f32 + ",\"a\":" + f32 + "}", 4), "tensor \"a\" appears twice"},
      {file("{\"a\":" + f32 + ",\"\\u0061\":" + f32 + "}", 4), "tensor \"a\" appears twice"},
      {file("{\"" + std::string(4097, 'n') + "\":" + f32 + "}", 4), "name of 4097 bytes exceeds the limit of 4096"},
      {file("{\"a\\n\\u0000\\u00ef\":1}", 4), "tensor \"a\\x0a\\x00\\xc3\\xaf\": a number"},
      {file(R"({"__metadata__":{"a":"","a":""}})", 0), "__metadata__: \"a\" appears twice"},
      {file(R"({"__metadata__":{},"__metadata__":{}})", 0), "__metadata__ appears twice"},
      // dtype
      {one("f32", "[1]", "[0,4]", 4), a + "dtype \"f32\" is unknown"},
      {one("", "[1]", "[0,4]", 4), a + "dtype \"\" is unknown"},
      {one("F33", "[0]", "[0,0]", 0), a + "dtype \"F33\" is unknown"},
      {one("BOOL", "[1]", "[0,1]", 0) + '\2', a + "element 0 is the byte 2, but a bool must be 0 or 1"},
      // shape
      {one("F32", "[-0]", "[0,4]", 4), a + "shape has a negative number"},
      {one("F32", "[1.0]", "[0,4]", 4), no_integer},
      {one("F32", "[1e0]", "[0,4]", 4), no_integer},
      {one("F32", "[18446744073709551616]", "[0,4]", 4), no_integer},
      {one("F32", "[1e999]", "[0,4]", 4), "header: number out of range at line 1, column"},
      {one("F32", "[01]", "[0,4]", 4), "not valid JSON"},
      {one("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]", 4), a + "shape has more than 16 dimensions"},
      {one("F32", "[4294967296,4294967296]", "[0,0]", 0),
       "shape [4294967296, 4294967296] of F32 has too many elements"},
      {one("F32", "[4294967296,4294967296,0]", "[0,0]", 0), "has too many elements"},
      {one("F32", "[0,4294967296,4294967296]", "[0,0]", 0), "has too many elements"},
      {one("U8", "[9223372036854775808,0]", "[0,0]", 0), "has too many elements"},
      {one("F64", "[2305843009213693952]", "[0,0]", 0), "has too many elements"},
      {one("F64", "[18446744073709551615]", "[0,8]", 8), "has too many elements"},
      // data_offsets
      {one("F32", "[1]", "[]", 4), a + "data_offsets needs two numbers"},
      {one("F32", "[1]", "[4]", 4), a + "data_offsets needs two numbers"},
      {one("F32", "[1]", "[0,4,4]", 4), a + "data_offsets has more than two numbers"},
      {one("F32", "[1]", "[0.0,4]", 4), a + "data_offsets has a number that is not an integer of 64 bits"},
      {one("F32", "[1]", "[4,0]", 4), a + "data_offsets [4, 0] run backwards"},
      {one("F32", "[1]", "[18446744073709551615,3]", 4), "run backwards"},
      {one("F32", "[1]", "[0,8]", 4), a + "data_offsets [0, 8] reach beyond the 4 bytes of data"},
      {one("F32", "[1]", "[0,18446744073709551615]", 4), "reach beyond the 4 bytes of data"},
      {one("F32", "[1000000000000]", "[0,4000000000000]", 4), "reach beyond the 4 bytes of data"},
      {one("F32", "[2,2]", "[0,12]", 12), "data_offsets [0, 12] hold 12 bytes, but shape [2, 2] of F32 needs 16"},
      {one("F32", "[]", "[0,0]", 0), "data_offsets [0, 0] hold 0 bytes, but shape [] of F32 needs 4"},
      {one("F32", "[0]", "[0,4]", 4), "data_offsets [0, 4] hold 4 bytes, but shape [0] of F32 needs 0"},
      {one("U8", "[3]", "[1,4]", 4), a + "data_offsets [1, 4] leave a hole after byte 0"},
      {one("U8", "[3]", "[0,3]", 4), "the tensors hold 3 bytes, but the file has 4 bytes of data"},
      {file("{}", 1), "the tensors hold 0 bytes, but the file has 1 bytes of data"},
      {two("[1]", "[0,1]", "[1]", "[2,3]", 3), "tensor \"b\": data_offsets [2, 3] leave a hole after byte 1"},
      {two("[2]", "[0,2]", "[2]", "[1,3]", 3), "tensor \"b\": data_offsets [1, 3] overlap what lies before byte 2"},
      {two("[2]", "[0,2]", "[2]", "[0,2]", 2), "data_offsets [0, 2] overlap what lies before byte 2"},
      {two("[3]", "[0,3]", "[0]", "[1,1]", 3), "tensor \"b\": data_offsets [1, 1] overlap what lies before byte 3"},
      // depth
      {file("{\"a\":" + std::string(100'000, '['), 0), a + "an array where an object must be"},
      {file(R"({"a":{"shape":)" + std::string(100'000, '['), 0), a + "shape has an array"},
  };
  for (const char* header : {"", " {}", "[]", "null", "\xef\xbb\xbf{}"}) {
    files.push_back({file(header, 0), "header: must begin with {"});
  }
  for (const std::string& header :
       {std::string("{\"a\""), std::string("{}}"), std::string("{}{}"), std::string("{/**/}"), std::string("{'a':1}"),
        std::string("{\"a\":NaN}"), "{\"a\":" + f32 + ",}", "{\"\xff\":" + f32 + "}", "{\"\xc0\xaf\":" + f32 + "}",
        "{\"\\ud800\":" + f32 + "}", "{\"a\nb\":" + f32 + "}"}) {
    files.push_back({file(header, 4), "not valid JSON"});
  }
  for (const std::string dtype :
       {"F4", "F6_E2M3", "F6_E3M2", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"}) {
    files.push_back({one(dtype, "[8]", "[0,8]", 8), "dtype " + dtype + " is not supported"});
  }
  test::expect_refused(files, "bad.safetensors", read_safetensors);
  test::expect_refused(files_of_other_kinds(), "bad.safetensors", read_safetensors);
  EXPECT_THROW(read_safetensors(golden("f8.safetensors")), FormatError);
}

TEST(Safetensors, RefusesMoreThanAHundredThousandTensors) {
  std::string header = "{";
  for (int i = 0; i <= 100'000; ++i) {
    header += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  const std::string message =
      test::message_of<FormatError>([&] { io::parse_safetensors(file(header + "}", 0), "a.safetensors"); });
  EXPECT_EQ(message, "a.safetensors: header: more than 100000 tensors");
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
  const auto refusal = [&](const std::string& name, const std::string& metadata) {
    SafeTensors content;
    content.tensors[name] = counted({1}, Dtype::f32);
    content.metadata["key"] = metadata;
    return test::message_of<FormatError>([&] { write_safetensors(folder / "a.safetensors", content); });
  };
  const std::pair<std::string, std::string> refusals[] = {
      {refusal("__metadata__", ""), "cannot be named __metadata__"},
      {refusal(std::string(4097, 'a'), ""), "exceeds the limit of 4096"},
      {refusal("\xff", ""), "\"\\xff\" is not UTF-8"},
      {refusal("a", "\xc3"), "\"\\xc3\" is not UTF-8"}};
  for (const auto& [message, part] : refusals) EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace qkv
