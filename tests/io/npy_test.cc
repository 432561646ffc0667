// .npy files: round trips, files that NumPy wrote, and every rule broken once.
#include <gtest/gtest.h>

#include "io/files_for_test.h"
#include "io/parse.h"
#include "qkv/files.h"

namespace qkv {
namespace {

using test::counted;
using test::expect_equal;
using test::golden;
using test::Malformed;

std::string npy(const std::string& header, const std::string& data, char major = 1) {
  std::string length = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  if (major > 1) length += std::string(2, '\0');
  return "\x93NUMPY" + std::string{major, '\0'} + length + header + data;
}

std::string with_shape(const std::string& shape, const std::string& data) {
  return npy("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }\n", data);
}

std::string with_descr(const std::string& descr) {
  return npy("{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,), }\n", std::string(8, '\0'));
}

const std::string kFour(4, '\0');

// As NumPy names them, in files of their own.
const std::pair<const char*, Dtype> kDtypes[] = {{"f2", Dtype::f16}, {"f4", Dtype::f32}, {"f8", Dtype::f64},
                                                 {"i1", Dtype::i8},  {"i2", Dtype::i16}, {"i4", Dtype::i32},
                                                 {"i8", Dtype::i64}, {"u1", Dtype::u8},  {"u2", Dtype::u16},
                                                 {"u4", Dtype::u32}, {"u8", Dtype::u64}};

TEST(Npy, RoundTripOfEveryTypeAndRank) {
  const test::TemporaryFolder folder;
  std::vector<Tensor> arrays;
  for (const auto& [name, dtype] : kDtypes) arrays.push_back(counted({2, 1, 3}, dtype));
  for (const Dims& shape : {Dims{}, Dims{5}, Dims{2, 3}, Dims{2, 1, 3, 4}, Dims{0}, Dims{3, 0, 2}}) {
    arrays.push_back(counted(shape, Dtype::f32));
  }
  const Tensor flags = Tensor::of<std::uint8_t>({3}, {0, 1, 1});
  arrays.push_back(Tensor::copy(TensorView(flags.view().bytes(), Dtype::boolean, {3})));
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::string path = folder / std::to_string(i);
    write_npy(path, arrays[i]);
    expect_equal(read_npy(path), arrays[i]);
    EXPECT_EQ(test::slurp(path).find('\n') % 64, 63u);
  }
  write_npy(folder / "turned", counted({2, 3}, Dtype::f32).view().transpose(0, 1));  // a view, in its own order
  expect_equal(read_npy(folder / "turned"), Tensor::of<float>({3, 2}, {0, 3, 1, 4, 2, 5}));
}

TEST(Npy, WritesTheBytesOfNumpy) {
  const test::TemporaryFolder folder;
  for (const auto& [name, array] :
       {std::pair("f4.npy", counted({2, 3}, Dtype::f32)), std::pair("u1.npy", counted({2, 3}, Dtype::u8)),
        std::pair("rank1.npy", counted({5}, Dtype::f32)), std::pair("empty.npy", counted({0, 3}, Dtype::f32))}) {
    write_npy(folder / name, array);
    EXPECT_EQ(test::slurp(folder / name), test::slurp(golden(name)));
  }
}

TEST(Npy, ReadsWhatNumpyWrote) {
  for (const auto& [name, dtype] : kDtypes) {
    expect_equal(read_npy(golden(std::string(name) + ".npy")), counted({2, 3}, dtype));
  }
  for (const char* name : {"version1.npy", "version2.npy", "version3.npy"}) {
    expect_equal(read_npy(golden(name)), counted({2, 3}, Dtype::f32));
  }
  expect_equal(read_npy(golden("fortran.npy")), counted({2, 3, 4}, Dtype::f32));
  expect_equal(read_npy(golden("rank4.npy")), counted({2, 1, 3, 4}, Dtype::f32));
  expect_equal(read_npy(golden("empty.npy")), counted({0, 3}, Dtype::f32));
  expect_equal(read_npy(golden("rank0.npy")), Tensor::of<float>({}, {7.0f}));
  const Tensor flags = read_npy(golden("bool.npy"));
  EXPECT_EQ(flags.dtype(), Dtype::boolean);
  EXPECT_EQ(test::values_of(flags), (std::vector<double>{0, 1, 1, 0}));
  // The keys in any order and spacing.
  const std::string other =
      npy("{ \"shape\":(1 ,) ,'fortran_order' : True,'descr':'<f4'}", std::string("\0\0\x80\x3f", 4), 3);
  expect_equal(io::parse_npy(other, "a.npy"), Tensor::of<float>({1}, {1.0f}));
}

TEST(Npy, CannotHoldBfloat16) {
  const test::TemporaryFolder folder;
  const std::string message =
      test::message_of<FormatError>([&] { write_npy(folder / "a.npy", counted({2}, Dtype::bf16)); });
  EXPECT_NE(message.find("bf16; convert to f32"), std::string::npos);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Npy, RefusesEveryBrokenRule) {
  const std::string deep = "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)";
  std::vector<Malformed> files = {
      {"", "the magic and version needs 8 bytes, but 0 are left"},
      {"\x93NUMPX" + std::string("\1\0", 2), "wrong magic"},
      {"\x93NUMPY" + std::string("\0\0", 2), "version 0.0 is not supported"},
      {"\x93NUMPY" + std::string("\4\0", 2), "version 4.0 is not supported"},
      {"\x93NUMPY" + std::string("\1\1", 2), "version 1.1 is not supported"},
      {"\x93NUMPY" + std::string("\1\0\x10", 3), "length of the header needs 2 bytes, but 1 are left"},
      {"\x93NUMPY" + std::string("\2\0\x10\0\0", 5), "length of the header needs 4 bytes, but 3 are left"},
      {"\x93NUMPY" + std::string("\1\0\x10\0{}", 6), "header needs 16 bytes, but 2 are left"},
      {"\x93NUMPY" + std::string("\1\0\xff\xff", 4), "header of 65535 bytes exceeds the limit of 10000"},
      {"\x93NUMPY" + std::string("\2\0\xff\xff\xff\xff", 6), "header of 4294967295 bytes exceeds the limit"},
      {npy("", ""), "'{' expected at byte 0"},
      {npy("[]", ""), "'{' expected at byte 0"},
      {npy("{}", ""), "descr is missing"},
      {npy("{'descr': '<f4', 'shape': ()}", kFour), "fortran_order is missing"},
      {npy("{'descr': '<f4', 'fortran_order': False}", kFour), "shape is missing"},
      {npy("{'descr': '<f4', 'descr': '<f4'}", kFour), "descr appears twice"},
      {npy("{'fortran_order': True, 'fortran_order': True}", kFour), "fortran_order appears twice"},
      {npy("{'shape': (), 'shape': ()}", kFour), "shape appears twice"},
      {npy("{'extra': 1}", kFour), "unknown key \"extra\""},
      {npy("{'\x01\xff': 1}", kFour), "unknown key \"\\x01\\xff\""},
      {npy("{descr: '<f4'}", kFour), "a string expected at byte 1"},
      {npy("{'descr", kFour), "a string expected at byte 1"},
      {npy("{'de\\x73cr': '<f4'}", kFour), "an escape in the string"},
      {npy("{'descr' '<f4'}", kFour), "':' expected"},
      {npy("{'descr': '<f4' 'shape': ()}", kFour), "'}' expected"},
      {npy("{'descr': '<f4'", kFour), "'}' expected"},
      {npy("{'descr': '<f4',, }", kFour), "a string expected"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", kFour), "something follows the closing brace"},
      {npy("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", kFour), "fortran_order must be True or False"},
      {npy("{'descr': '<f4', 'fortran_order': Falsey, 'shape': ()}", kFour), "'}' expected"},
      {with_descr("4"), "a string expected"},
      {with_descr("'>f4'"), "descr \">f4\": big-endian elements are not supported"},
      {with_descr("'|O'"), "objects are not supported"},
      {with_descr("'<c8'"), "complex numbers are not supported"},
      {with_descr("'|S4'"), "strings are not supported"},
      {with_descr("'<U2'"), "strings are not supported"},
      {with_descr("'|V8'"), "structured and void types are not supported"},
      {with_descr("[('x', '<f4')]"), "structured and void types are not supported"},
      {with_descr("'<M8[ns]'"), "dates are not supported"},
      {with_descr("'|b1'"), "shape [1] of bool needs 1 bytes of data, but the file has 8"},
      {npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", std::string("\1\0\2", 3)),
       "element 2 is the byte 2, but a bool must be 0 or 1"},
      {with_shape("1", kFour), "shape must be a tuple"},
      {with_shape("(1)", kFour), "shape must be a tuple, (n,) for one dimension"},
      {with_shape("(1 1)", kFour), "shape: ',' or ')' expected"},
      {with_shape("(,)", kFour), "shape: a number of 0 or more expected"},
      {with_shape("(-1,)", kFour), "shape: a number of 0 or more expected"},
      {with_shape("(1.0,)", kFour), "shape: ',' or ')' expected"},
      {with_shape("(1L,)", kFour), "shape: ',' or ')' expected"},
      {with_shape("(18446744073709551616,)", kFour), "shape: an extent exceeds 64 bits"},
      {with_shape(deep, kFour), "shape: more than 16 dimensions"},
      {with_shape("(4294967296, 4294967296)", ""), "shape: too many elements"},
      {with_shape("(4294967296, 4294967296, 0)", ""), "shape: too many elements"},
      {with_shape("(9223372036854775808, 0)", ""), "shape: too many elements"},
      {with_shape("(1000000000000,)", kFour), "needs 4000000000000 bytes of data, but the file has 4"},
      {with_shape("(2,)", kFour), "shape [2] of f32 needs 8 bytes of data, but the file has 4"},
      {with_shape("(1,)", kFour + "x"), "shape [1] of f32 needs 4 bytes of data, but the file has 5"},
      {with_shape("(0,)", kFour), "shape [0] of f32 needs 0 bytes of data, but the file has 4"},
  };
  for (const std::string descr : {"", "f4", "|f4", "=f4", "<f16", "<f4 "}) {
    files.push_back({with_descr("'" + descr + "'"), "descr \"" + descr + "\": not supported"});
  }
  for (const char* name : {"big_endian", "complex", "string", "object", "structured"}) {
    files.push_back(
        {test::slurp(golden(std::string(name) + ".npy")), name == std::string("big_endian") ? "big-endian" : name});
  }
  test::expect_refused(files, "bad.npy", read_npy);
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
