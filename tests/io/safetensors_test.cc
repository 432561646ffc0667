// safetensors files: round trips, files of the reference implementation, and every rule broken once.
#include <gtest/gtest.h>

#include <limits>

#include "io/files.h"
#include "io/files_for_test.h"
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
  return file(
      R"({"a":)" + entry(R"("U8")", shape_a, offsets_a) + R"(,"b":)" + entry(R"("U8")", shape_b, offsets_b) + "}",
      bytes);
}

TEST(Safetensors, RoundTripOfEveryTypeAndRank) {
  const test::TemporaryFolder folder;
  SafeTensors content;
  content.metadata = {{"format", "qkv"}, {"", "\"\\\n\xc3\xaf"}};
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16, Dtype::i8, Dtype::u8, Dtype::i16,
                            Dtype::u16, Dtype::i32, Dtype::u32, Dtype::i64, Dtype::u64}) {
    for (const Dims& shape : {Dims{}, Dims{5}, Dims{2, 3}, Dims{2, 1, 3}, Dims{2, 1, 3, 4}, Dims{0}, Dims{3, 0, 2}}) {
      content.tensors[std::string(name_of(dtype)) + " " + to_string(shape)] = counted(shape, dtype);
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
  for (const auto& [name, dtype] :
       {std::pair("f2", Dtype::f16), std::pair("f4", Dtype::f32), std::pair("f8", Dtype::f64),
        std::pair("i1", Dtype::i8), std::pair("i2", Dtype::i16), std::pair("i4", Dtype::i32),
        std::pair("i8", Dtype::i64), std::pair("u1", Dtype::u8), std::pair("u2", Dtype::u16),
        std::pair("u4", Dtype::u32), std::pair("u8", Dtype::u64), std::pair("bf16", Dtype::bf16)}) {
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
  content.tensors["a"] = counted({1}, Dtype::u8);
  content.tensors["z"] = counted({1}, Dtype::f64);
  content.tensors["n"] = counted({1}, Dtype::f32);
  content.tensors["m"] = counted({1}, Dtype::i32);
  write_safetensors(folder / "a.safetensors", content);
  const std::string bytes = test::slurp(folder / "a.safetensors");
  EXPECT_LT(bytes.find("\"z\""), bytes.find("\"m\""));
  EXPECT_LT(bytes.find("\"m\""), bytes.find("\"n\""));
  EXPECT_LT(bytes.find("\"n\""), bytes.find("\"a\""));
  EXPECT_EQ((bytes.size() - 17) % 8, 0u);
}

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  EXPECT_TRUE(io::parse_safetensors(file("{}", 0), "a").tensors.empty());
  EXPECT_TRUE(io::parse_safetensors(file("{}  \n\t ", 0), "a").tensors.empty());
  EXPECT_TRUE(io::parse_safetensors(file(R"({"__metadata__":{}})", 0), "a").metadata.empty());
  EXPECT_EQ(io::parse_safetensors(two("[1]", "[2,3]", "[2]", "[0,2]", 3), "a").tensors.size(), 2u);
  EXPECT_EQ(io::parse_safetensors(two("[0]", "[2,2]", "[2]", "[0,2]", 2), "a").tensors.size(), 2u);
  EXPECT_EQ(io::parse_safetensors(one("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]", 1), "a").tensors.size(), 1u);
  const std::string name(4096, 'n');
  const std::string longest = "{\"" + name + "\":" + entry("\"F32\"", "[]", "[0,4]") + "}";
  EXPECT_EQ(io::parse_safetensors(file(longest, 4), "a").tensors.count(name), 1u);
  const std::string bits = with_length(0x7fc00000, "").substr(0, 4);
  const std::string header = R"({"a":)" + entry("\"F32\"", "[1]", "[0,4]") + "}";
  const SafeTensors content = io::parse_safetensors(with_length(header.size(), header + bits), "a");
  EXPECT_NE(content.tensors.at("a").data<float>()[0], content.tensors.at("a").data<float>()[0]);
}

TEST(Safetensors, RefusesEveryBrokenRule) {
  const std::string f32 = entry("\"F32\"", "[1]", "[0,4]");
  std::vector<Malformed> files = {
      {"", "0 bytes are too few for the length of the header"},
      {"1234567", "7 bytes are too few for the length of the header"},
      {with_length(2, "{"), "header length 2 exceeds the 1 bytes that follow"},
      {with_length(16'000'000, "{}"), "header length 16000000 exceeds the 2 bytes that follow"},
      {with_length(16'000'001, "{}"), "header length 16000001 exceeds the limit of 16000000"},
      {with_length(std::numeric_limits<std::uint64_t>::max(), "{}"), "exceeds the limit of 16000000"},
      {with_length(std::numeric_limits<std::uint64_t>::max() - 7, "{}"), "exceeds the limit of 16000000"},
      {with_length(std::uint64_t{1} << 63, "{}"), "exceeds the limit of 16000000"},
      {file("", 0), "header: must begin with {"},
      {file(" {}", 0), "header: must begin with {"},
      {file("[]", 0), "header: must begin with {"},
      {file("null", 0), "header: must begin with {"},
      {file("\xef\xbb\xbf{}", 0), "header: must begin with {"},
      {file("{", 0), "not valid JSON at line 1, column 2"},
      {file("{\"a\"", 0), "not valid JSON"},
      {file("{}}", 0), "not valid JSON"},
      {file("{}{}", 0), "not valid JSON"},
      {file(std::string("{}\0", 3), 0), "not valid JSON at line 1, column 3: a zero byte"},
      {file(std::string("{}\0{}", 5), 0), "a zero byte"},
      {file("{/**/}", 0), "not valid JSON"},
      {file("{'a':1}", 0), "not valid JSON"},
      {file("{\"a\":" + f32 + ",}", 4), "not valid JSON"},
      {file("{\"\xff\":" + f32 + "}", 4), "not valid JSON"},
      {file("{\"\xc0\xaf\":" + f32 + "}", 4), "not valid JSON"},
      {file("{\"\\ud800\":" + f32 + "}", 4), "not valid JSON"},
      {file("{\"a\nb\":" + f32 + "}", 4), "not valid JSON"},
      {file("{\"a\":NaN}", 0), "not valid JSON"},
      {file("{\"a\":null}", 0), "tensor \"a\": null where an object must be"},
      {file("{\"a\":true}", 0), "tensor \"a\": true or false where an object must be"},
      {file("{\"a\":1}", 0), "tensor \"a\": a number where an object must be"},
      {file("{\"a\":-1}", 0), "tensor \"a\": a negative number where an object must be"},
      {file("{\"a\":\"F32\"}", 0), "tensor \"a\": a string where an object must be"},
      {file("{\"a\":[\"F32\",[1],[0,4]]}", 4), "tensor \"a\": an array where an object must be"},
      {file("{\"a\":{}}", 0), "tensor \"a\": dtype is missing"},
      {file(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), "tensor \"a\": dtype is missing"},
      {file(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), "tensor \"a\": shape is missing"},
      {file(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "tensor \"a\": data_offsets is missing"},
      {file(R"({"a":{"dtype":"F32","dtype":"F32"}})", 4), "tensor \"a\": dtype appears twice"},
      {file(R"({"a":{"shape":[],"shape":[]}})", 4), "tensor \"a\": shape appears twice"},
      {file(R"({"a":{"data_offsets":[0,0],"data_offsets":[0,4]}})", 4), "tensor \"a\": data_offsets appears twice"},
      {file(R"({"a":{"Dtype":"F32"}})", 4), "tensor \"a\": unknown field \"Dtype\""},
      {file(R"({"a":{"strides":[1]}})", 4), "tensor \"a\": unknown field \"strides\""},
      {file("{\"a\":" + f32 + ",\"a\":" + f32 + "}", 4), "tensor \"a\" appears twice"},
      {file("{\"a\":" + f32 + ",\"\\u0061\":" + f32 + "}", 4), "tensor \"a\" appears twice"},
      {file("{\"" + std::string(4097, 'n') + "\":" + f32 + "}", 4), "name of 4097 bytes exceeds the limit of 4096"},
      {file("{\"a\\n\\u0000\\u00ef\":1}", 4), "tensor \"a\\x0a\\x00\\xc3\\xaf\": a number"},
      // dtype
      {file("{\"a\":" + entry("1", "[1]", "[0,4]") + "}", 4), "tensor \"a\": dtype is a number, but must be a string"},
      {file("{\"a\":" + entry("[]", "[1]", "[0,4]") + "}", 4), "tensor \"a\": dtype is an array, but must be a string"},
      {one("f32", "[1]", "[0,4]", 4), "tensor \"a\": dtype \"f32\" is unknown"},
      {one("", "[1]", "[0,4]", 4), "tensor \"a\": dtype \"\" is unknown"},
      {one("F33", "[0]", "[0,0]", 0), "tensor \"a\": dtype \"F33\" is unknown"},
      // shape
      {one("F32", "1", "[0,4]", 4), "tensor \"a\": shape has a number, but must be an array"},
      {one("F32", "null", "[0,4]", 4), "tensor \"a\": shape has null, but must be an array"},
      {one("F32", "{}", "[0,4]", 4), "tensor \"a\": shape has an object, but must be an array"},
      {one("F32", "[-1]", "[0,4]", 4), "tensor \"a\": shape has a negative number"},
      {one("F32", "[-0]", "[0,4]", 4), "tensor \"a\": shape has a negative number"},
      {one("F32", "[1.0]", "[0,4]", 4), "tensor \"a\": shape has a number that is not an integer of 64 bits"},
      {one("F32", "[1e0]", "[0,4]", 4), "tensor \"a\": shape has a number that is not an integer of 64 bits"},
      {one("F32", "[1e999]", "[0,4]", 4), "header: number out of range at line 1, column"},
      {one("F32", "[18446744073709551616]", "[0,4]", 4), "shape has a number that is not an integer of 64 bits"},
      {one("F32", "[01]", "[0,4]", 4), "not valid JSON"},
      {one("F32", "[\"1\"]", "[0,4]", 4), "tensor \"a\": shape has a string"},
      {one("F32", "[[1]]", "[0,4]", 4), "tensor \"a\": shape has an array"},
      {one("F32", "[null]", "[0,4]", 4), "tensor \"a\": shape has null"},
      {one("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]", 4), "shape has more than 16 dimensions"},
      {one("F32", "[4294967296,4294967296]", "[0,0]", 0),
       "shape [4294967296, 4294967296] of F32 has too many elements"},
      {one("F32", "[4294967296,4294967296,0]", "[0,0]", 0), "has too many elements"},
      {one("F32", "[0,4294967296,4294967296]", "[0,0]", 0), "has too many elements"},
      {one("U8", "[9223372036854775808,0]", "[0,0]", 0), "has too many elements"},
      {one("F64", "[2305843009213693952]", "[0,0]", 0), "has too many elements"},
      {one("F64", "[18446744073709551615]", "[0,8]", 8), "has too many elements"},
      // data_offsets
      {one("F32", "[1]", "4", 4), "tensor \"a\": data_offsets has a number, but must be an array of two integers"},
      {one("F32", "[1]", "{\"0\":4}", 4), "tensor \"a\": data_offsets has an object"},
      {one("F32", "[1]", "[]", 4), "tensor \"a\": data_offsets needs two numbers"},
      {one("F32", "[1]", "[4]", 4), "tensor \"a\": data_offsets needs two numbers"},
      {one("F32", "[1]", "[0,4,4]", 4), "tensor \"a\": data_offsets has more than two numbers"},
      {one("F32", "[1]", "[-4,0]", 4), "tensor \"a\": data_offsets has a negative number"},
      {one("F32", "[1]", "[0.0,4]", 4), "tensor \"a\": data_offsets has a number that is not an integer of 64 bits"},
      {one("F32", "[1]", "[0,\"4\"]", 4), "tensor \"a\": data_offsets has a string"},
      {one("F32", "[1]", "[[0,4]]", 4), "tensor \"a\": data_offsets has an array"},
      {one("F32", "[1]", "[4,0]", 4), "tensor \"a\": data_offsets [4, 0] run backwards"},
      {one("F32", "[1]", "[18446744073709551615,3]", 4), "run backwards"},
      {one("F32", "[1]", "[0,8]", 4), "tensor \"a\": data_offsets [0, 8] reach beyond the 4 bytes of data"},
      {one("F32", "[1]", "[0,18446744073709551615]", 4), "reach beyond the 4 bytes of data"},
      {one("F32", "[1000000000000]", "[0,4000000000000]", 4), "reach beyond the 4 bytes of data"},
      {one("F32", "[2,2]", "[0,12]", 12), "data_offsets [0, 12] hold 12 bytes, but shape [2, 2] of F32 needs 16"},
      {one("F32", "[]", "[0,0]", 0), "data_offsets [0, 0] hold 0 bytes, but shape [] of F32 needs 4"},
      {one("F32", "[0]", "[0,4]", 4), "data_offsets [0, 4] hold 4 bytes, but shape [0] of F32 needs 0"},
      {one("U8", "[3]", "[1,4]", 4), "tensor \"a\": data_offsets [1, 4] leave a hole after byte 0"},
      {one("U8", "[3]", "[0,3]", 4), "the tensors hold 3 bytes, but the file has 4 bytes of data"},
      {file("{}", 1), "the tensors hold 0 bytes, but the file has 1 bytes of data"},
      {two("[1]", "[0,1]", "[1]", "[2,3]", 3), "tensor \"b\": data_offsets [2, 3] leave a hole after byte 1"},
      {two("[2]", "[0,2]", "[2]", "[1,3]", 3), "tensor \"b\": data_offsets [1, 3] overlap what lies before byte 2"},
      {two("[2]", "[0,2]", "[2]", "[0,2]", 2), "data_offsets [0, 2] overlap what lies before byte 2"},
      {two("[3]", "[0,3]", "[0]", "[1,1]", 3), "tensor \"b\": data_offsets [1, 1] overlap what lies before byte 3"},
      {one("BOOL", "[1]", "[0,1]", 0) + '\2', "tensor \"a\": element 0 is the byte 2, but a bool must be 0 or 1"},
      // __metadata__
      {file(R"({"__metadata__":null})", 0), "__metadata__ is null, but must be an object"},
      {file(R"({"__metadata__":[]})", 0), "__metadata__ is an array, but must be an object"},
      {file(R"({"__metadata__":"a"})", 0), "__metadata__ is a string, but must be an object"},
      {file(R"({"__metadata__":{"a":1}})", 0), "__metadata__: \"a\" is a number, but must be a string"},
      {file(R"({"__metadata__":{"a":{}}})", 0), "__metadata__: \"a\" is an object, but must be a string"},
      {file(R"({"__metadata__":{"a":null}})", 0), "__metadata__: \"a\" is null, but must be a string"},
      {file(R"({"__metadata__":{"a":"","a":""}})", 0), "__metadata__: \"a\" appears twice"},
      {file(R"({"__metadata__":{},"__metadata__":{}})", 0), "__metadata__ appears twice"},
      // depth
      {file("{\"a\":" + std::string(100'000, '['), 0), "tensor \"a\": an array where an object must be"},
      {file(R"({"a":{"shape":)" + std::string(100'000, '['), 0), "tensor \"a\": shape has an array"},
  };
  for (const char* dtype :
       {"F4", "F6_E2M3", "F6_E3M2", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"}) {
    files.push_back({one(dtype, "[8]", "[0,8]", 8), std::string("dtype ") + dtype + " is not supported"});
  }
  EXPECT_GE(files.size(), 100u);
  test::expect_refused(files, "bad.safetensors", read_safetensors);
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
  EXPECT_NE(refusal("__metadata__", "").find("cannot be named __metadata__"), std::string::npos);
  EXPECT_NE(refusal(std::string(4097, 'a'), "").find("exceeds the limit of 4096"), std::string::npos);
  EXPECT_NE(refusal("\xff", "").find("\"\\xff\" is not UTF-8"), std::string::npos);
  EXPECT_NE(refusal("a", "\xc3").find("\"\\xc3\" is not UTF-8"), std::string::npos);
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace qkv
