// .npy files: those that NumPy wrote, read and written again, and every rule broken once.
#include <gtest/gtest.h>

#include "io/files.h"
#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv {
namespace {

using std::string_literals::operator""s;
using test::counted;
using test::expect_equal;
using test::golden;

std::string npy(const std::string& header, const std::string& data, char major = 1) {
  std::string length = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  if (major > 1) length += std::string(2, '\0');
  return "\x93NUMPY" + std::string{major, '\0'} + length + header + data;
}

TEST(Npy, ReadsAndWritesTheBytesOfNumpy) {
  const Tensor flags = Tensor::of<std::uint8_t>({2, 2}, {0, 1, 1, 0});
  std::map<std::string, Tensor> arrays = {
      {"version1", counted({2, 3}, Dtype::f32)},
      {"rank1", counted({5}, Dtype::f32)},
      {"rank4", counted({2, 1, 3, 4}, Dtype::f32)},
      {"empty", counted({0, 3}, Dtype::f32)},
      {"rank0", Tensor::of<float>({}, {7.0f})},
      {"bool", Tensor::copy(TensorView(flags.view().bytes(), Dtype::boolean, {2, 2}))}};
  for (const auto& [name, dtype] : test::kNumpyTypes) arrays[name] = counted({2, 3}, dtype);
  const test::TemporaryFolder folder;
  for (const auto& [name, array] : arrays) {
    SCOPED_TRACE(name);
    const Tensor read = read_npy(golden(name + ".npy"));
    expect_equal(read, array);
    write_npy(folder / name, read);
    EXPECT_EQ(test::slurp(folder / name), test::slurp(golden(name + ".npy")));
  }
}

TEST(Npy, ReadsAnyOrder) {
  for (const char* version : {"version2.npy", "version3.npy"}) {
    expect_equal(read_npy(golden(version)), counted({2, 3}, Dtype::f32));
  }
  const Tensor array = counted({2, 3, 4}, Dtype::f32);
  expect_equal(read_npy(golden("fortran.npy")), array);
  const test::TemporaryFolder folder;
  const Tensor turned = Tensor::copy(array.view().transpose(0, 2));
  write_npy(folder / "view", turned.view().transpose(0, 2));  // is written in its own order
  expect_equal(read_npy(folder / "view"), array);
  const std::string keys = "{ \"shape\":(1 ,) ,'fortran_order' : True,'descr':'<f4'}";
  expect_equal(io::parse_npy(npy(keys, "\0\0\x80\x3f"s, 3), "a.npy"), Tensor::of<float>({1}, {1.0f}));
}

TEST(Npy, CannotHoldBfloat16) {
  const test::TemporaryFolder folder;
  const std::string message =
      test::message_of<FormatError>([&] { write_npy(folder / "a.npy", counted({2}, Dtype::bf16)); });
  EXPECT_NE(message.find("bf16; convert to f32"), std::string::npos);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Npy, RefusesEveryBrokenRule) {
  const std::string magic = "\x93NUMPY", four(4, '\0');
  test::Refusals refusals = {{"the magic and version needs 8 bytes, but 0 are left", {""}},
                             {"wrong magic", {"\x93NUMPX" + "\1\0"s}},
                             {"version 0.0 is not supported", {magic + "\0\0"s}},
                             {"version 4.0 is not supported", {magic + "\4\0"s}},
                             {"version 1.1 is not supported", {magic + "\1\1"s}},
                             {"length of the header needs 2 bytes, but 1 are left", {magic + "\1\0\x10"s}},
                             {"length of the header needs 4 bytes, but 3 are left", {magic + "\2\0\x10\0\0"s}},
                             {"header needs 16 bytes, but 2 are left", {magic + "\1\0\x10\0{}"s}},
                             {"header of 65535 bytes exceeds the limit of 10000", {magic + "\1\0\xff\xff"s}},
                             {"header of 4294967295 bytes exceeds the limit", {magic + "\2\0\xff\xff\xff\xff"s}},
                             {"element 2 is the byte 2, but a bool must be 0 or 1",
                              {npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "\1\0\2"s)}}};
  const test::Refusals headers = {
      {"'{' expected at byte 0", {"", "[]"}},
      {"descr is missing", {"{}"}},
      {"fortran_order is missing", {"{'descr': '<f4', 'shape': ()}"}},
      {"shape is missing", {"{'descr': '<f4', 'fortran_order': False}"}},
      {"descr appears twice", {"{'descr': '<f4', 'descr': '<f4'}"}},
      {"fortran_order appears twice", {"{'fortran_order': True, 'fortran_order': True}"}},
      {"shape appears twice", {"{'shape': (), 'shape': ()}"}},
      {"unknown key \"extra\"", {"{'extra': 1}"}},
      {"unknown key \"\\x01\\xff\"", {"{'\x01\xff': 1}"}},
      {"a string expected at byte 1", {"{descr: '<f4'}", "{'descr"}},
      {"an escape in the string", {"{'de\\x73cr': '<f4'}"}},
      {"':' expected", {"{'descr' '<f4'}"}},
      {"'}' expected",
       {"{'descr': '<f4' 'shape': ()}", "{'descr': '<f4'", "{'descr': '<f4', 'fortran_order': Falsey, 'shape': ()}"}},
      {"a string expected", {"{'descr': '<f4',, }"}},
      {"something follows the closing brace", {"{'descr': '<f4', 'fortran_order': False, 'shape': ()} x"}},
      {"fortran_order must be True or False", {"{'descr': '<f4', 'fortran_order': 0, 'shape': ()}"}}};
  const test::Refusals types = {{"a string expected", {"4"}},
                                {"descr \"\": not supported", {"''"}},
                                {"descr \"f4\": not supported", {"'f4'"}},
                                {"descr \"|f4\": not supported", {"'|f4'"}},
                                {"descr \"=f4\": not supported", {"'=f4'"}},
                                {"descr \"<f16\": not supported", {"'<f16'"}},
                                {"descr \"<f4 \": not supported", {"'<f4 '"}},
                                {"descr \">f4\": big-endian elements are not supported", {"'>f4'"}},
                                {"objects are not supported", {"'|O'"}},
                                {"complex numbers are not supported", {"'<c8'"}},
                                {"strings are not supported", {"'|S4'", "'<U2'"}},
                                {"structured and void types are not supported", {"'|V8'", "[('x', '<f4')]"}},
                                {"dates are not supported", {"'<M8[ns]'"}},
                                {"shape [1] of bool needs 1 bytes of data, but the file has 4", {"'|b1'"}}};
  const test::Refusals shapes = {
      {"shape must be a tuple", {"1", "[1]"}},
      {"shape must be a tuple, (n,) for one dimension", {"(1)"}},
      {"shape: ',' or ')' expected", {"(1 1)", "(1.0,)", "(1L,)"}},
      {"shape: a number of 0 or more expected", {"(,)", "(-1,)"}},
      {"shape: an extent exceeds 64 bits", {"(18446744073709551616,)"}},
      {"shape: more than 16 dimensions", {"(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"}},
      {"shape: too many elements",
       {"(4294967296, 4294967296)", "(4294967296, 4294967296, 0)", "(9223372036854775808, 0)"}},
      {"needs 4000000000000 bytes of data, but the file has 4", {"(1000000000000,)"}},
      {"shape [2] of f32 needs 8 bytes of data, but the file has 4", {"(2,)"}},
      {"shape [0] of f32 needs 0 bytes of data, but the file has 4", {"(0,)"}}};
  const auto add = [&](const test::Refusals& parts, const std::string& before, const std::string& behind) {
    for (const auto& [message, all] : parts) {
      for (const std::string& part : all) refusals.push_back({message, {npy(before + part + behind, four)}});
    }
  };
  add(headers, "", "");
  add(types, "{'descr': ", ", 'fortran_order': False, 'shape': (1,), }\n");
  add(shapes, "{'descr': '<f4', 'fortran_order': False, 'shape': ", ", }\n");
  for (const std::string word : {"big-endian", "complex", "string", "object", "structured"}) {
    const std::string name = word == "big-endian" ? "big_endian" : word;
    refusals.push_back({word, {test::slurp(golden(name + ".npy"))}});
  }
  test::expect_all_refused(refusals, "bad.npy", read_npy);
}

TEST(Npy, RefusesTruncationAtEveryByte) {
  for (const char* name : {"version1.npy", "version2.npy", "fortran.npy", "bool.npy"}) {
    const std::string bytes = test::slurp(golden(name));
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THROW(io::parse_npy(std::string_view(bytes).substr(0, length), name), FormatError) << length;
    }
  }
}

}  // namespace
}  // namespace qkv
