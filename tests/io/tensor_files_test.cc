// .npy and safetensors: files of NumPy and of the reference implementation, read and written; every rule broken once.
#include "io/files/files.h"
#include "io/files_for_test.h"

namespace qkv::test {
namespace {

using std::string_literals::operator""s;

// As NumPy names them.
constexpr std::pair<const char*, Dtype> kNumpyTypes[] = {{"f2", Dtype::f16}, {"f4", Dtype::f32}, {"f8", Dtype::f64},
                                                         {"i1", Dtype::i8},  {"i2", Dtype::i16}, {"i4", Dtype::i32},
                                                         {"i8", Dtype::i64}, {"u1", Dtype::u8},  {"u2", Dtype::u16},
                                                         {"u4", Dtype::u32}, {"u8", Dtype::u64}};

Tensor flags(const Dims& shape, const std::vector<std::uint8_t>& values) {
  return Tensor::copy(TensorView(Tensor::of(shape, values).view().bytes(), Dtype::boolean, shape));
}

std::string npy(const std::string& header, const std::string& data, char major = 1) {
  std::string length = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  if (major > 1) length += std::string(2, '\0');
  return "\x93NUMPY" + std::string{major, '\0'} + length + header + data;
}

TEST(Npy, ReadsAndWritesTheBytesOfNumpy) {
  const TemporaryFolder folder;
  std::map<std::string, Tensor> arrays = {
      {"version1", counted({2, 3}, Dtype::f32)},    {"rank1", counted({5}, Dtype::f32)},
      {"rank4", counted({2, 1, 3, 4}, Dtype::f32)}, {"empty", counted({0, 3}, Dtype::f32)},
      {"rank0", Tensor::of<float>({}, {7.0f})},     {"bool", flags({2, 2}, {0, 1, 1, 0})}};
  for (const auto& [name, dtype] : kNumpyTypes) arrays[name] = counted({2, 3}, dtype);
  for (const auto& [name, array] : arrays) {
    SCOPED_TRACE(name);
    expect_equal(read_npy(golden(name + ".npy")), array);
    write_npy(folder / name, array);
    EXPECT_EQ(slurp(folder / name), slurp(golden(name + ".npy")));
  }
  const auto write = [&] { write_npy(folder / "bf16", counted({2}, Dtype::bf16)); };
  EXPECT_NE(message_of<FormatError>(write).find("bf16; convert to f32"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "bf16"));
  for (const char* version : {"version2.npy", "version3.npy"}) {
    expect_equal(read_npy(golden(version)), counted({2, 3}, Dtype::f32));
  }
  const Tensor large = counted({2, 3, 4}, Dtype::f32), turned = Tensor::copy(large.view().transpose(0, 2));
  expect_equal(read_npy(golden("fortran.npy")), large);
  write_npy(folder / "view", turned.view().transpose(0, 2));  // is written in its own order
  expect_equal(read_npy(folder / "view"), large);
  const std::string keys = "{ \"shape\":(1 ,) ,'fortran_order' : True,'descr':'<f4'}";
  expect_equal(io::parse_npy(npy(keys, "\0\0\x80\x3f"s, 3), "a.npy"), Tensor::of<float>({1}, {1.0f}));
}

TEST(Npy, RefusesEveryBrokenRule) {
  const std::string four(4, '\0');
  Refusals refusals = {{"cut short: the start of an .npy file needs 8 bytes, but 0 are left", {""}},
                       {"wrong magic", {"\x93NUMPX\1\0"s}},
                       {"version 0.0 is not supported", {"\x93NUMPY\0\0"s}},
                       {"version 4.0 is not supported", {"\x93NUMPY\4\0"s}},
                       {"version 1.1 is not supported", {"\x93NUMPY\1\1"s}},
                       {"length of the header needs 2 bytes, but 1 are left", {"\x93NUMPY\1\0\x10"s}},
                       {"length of the header needs 4 bytes, but 3 are left", {"\x93NUMPY\2\0\x10\0\0"s}},
                       {"header needs 16 bytes, but 2 are left", {"\x93NUMPY\1\0\x10\0{}"s}},
                       {"header of 65535 bytes exceeds the limit of 10000", {"\x93NUMPY\1\0\xff\xff"s}},
                       {"header of 4294967295 bytes exceeds the limit", {"\x93NUMPY\2\0\xff\xff\xff\xff"s}},
                       {"element 2 is the byte 2, but a bool must be 0 or 1",
                        {npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "\1\0\2"s)}}};
  const Refusals headers = {
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
  const Refusals types = {{"a string expected", {"4"}},
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
  const Refusals shapes = {{"shape must be a tuple", {"1", "[1]"}},
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
  const auto add = [&](const Refusals& parts, const std::string& before, const std::string& behind) {
    for (const auto& [message, all] : parts) {
      for (const std::string& part : all) refusals.push_back({message, {npy(before + part + behind, four)}});
    }
  };
  add(headers, "", "");
  add(types, "{'descr': ", ", 'fortran_order': False, 'shape': (1,), }\n");
  add(shapes, "{'descr': '<f4', 'fortran_order': False, 'shape': ", ", }\n");
  for (const std::string word : {"big-endian", "complex", "string", "object", "structured"}) {
    const std::string name = word == "big-endian" ? "big_endian" : word;
    refusals.push_back({word, {slurp(golden(name + ".npy"))}});
  }
  expect_all_refused(refusals, "bad.npy", read_npy);
}

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
  SafeTensors all = read_safetensors(golden("all.safetensors"));
  EXPECT_EQ(all.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"quote", "\"\\\xe2\x80\xa8"}}));
  std::map<std::string, Tensor> expected = {{"bf16", counted({2, 3}, Dtype::bf16)},
                                            {"bool", flags({3}, {0, 1, 1})},
                                            {"rank 0", Tensor::of<float>({}, {7.0f})},
                                            {"empty", Tensor::of<float>({0, 3}, {})},
                                            {"na\xc3\xafve \"name\"\n", Tensor::of<float>({1}, {1.0f})}};
  for (const auto& [name, dtype] : kNumpyTypes) expected[name] = counted({2, 3}, dtype);
  const auto expect_same = [](const SafeTensors& read, const std::map<std::string, Tensor>& tensors) {
    ASSERT_EQ(read.tensors.size(), tensors.size());
    for (const auto& [name, tensor] : tensors) expect_equal(read.tensors.at(name), tensor);
  };
  expect_same(all, expected);
  expect_same(read_safetensors(golden("none.safetensors")), {});
  const TemporaryFolder folder;
  all.metadata[""] = "\n\xc3\xaf";
  for (const Dims& shape : {Dims{5}, Dims{2, 1, 3}, Dims{2, 1, 3, 4}, Dims{0}, Dims{3, 0, 2}}) {
    all.tensors[to_string(shape)] = counted(shape, Dtype::u16);
  }
  write_safetensors(folder / "a.safetensors", all);
  const SafeTensors read = read_safetensors(folder / "a.safetensors");
  EXPECT_EQ(read.metadata, all.metadata);
  expect_same(read, all.tensors);
  write_safetensors(folder / "b.safetensors", read);
  EXPECT_EQ(slurp(folder / "b.safetensors"), slurp(folder / "a.safetensors"));
}

TEST(Safetensors, WritesTheBytesOfTheReferenceImplementation) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  SafeTensors content{.tensors = {}, .metadata = {{"format", "np"}}};
  for (const auto& [name, shape] : {std::pair("b", Dims{2, 2}), {"a", {3}}, {"c", {}}, {"A", {0, 2}}}) {
    content.tensors[name] = counted(shape, Dtype::f32);
  }
  write_safetensors(path, content);
  EXPECT_EQ(slurp(path), slurp(golden("f32.safetensors")));
  // Larger elements first, then by name.
  for (const auto& [name, dtype] : {std::pair("0", Dtype::u8), {"z", Dtype::f64}, {"_", Dtype::i32}}) {
    content.tensors[name] = counted({1}, dtype);
  }
  write_safetensors(path, content);
  std::string names;
  const std::string bytes = slurp(path);
  for (std::size_t at = 0; (at = bytes.find(":{\"dtype", at + 1)) != std::string::npos;) names += bytes[at - 2];
  EXPECT_EQ(names, "zA_abc0");
  EXPECT_EQ((bytes.size() - 45) % 8, 0u);
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
  const std::string a = "tensor \"a\": ", shape = ", but must be an array of integers of 0 or more",
                    offsets = ", but must be an array of two integers of 0 or more";
  // What comes before and behind the value, and in the message before and behind its kind; the kind that is wanted.
  const std::array<std::string, 5> places[] = {
      {R"({"a":)", "}", a, ", but must be an object", "an object"},
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
  Refusals refusals;
  for (const auto& [before, behind, fault, rule, wanted] : places) {
    for (const auto& [json, kind] : kinds) {
      if (kind != wanted) refusals.push_back({fault + kind + rule, {file(before + json + behind, 4)}});
    }
  }
  expect_all_refused(refusals, "bad.safetensors", read_safetensors);
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
      {"is a ZIP archive, as torch.save() writes; safetensors.torch.save_file() writes safetensors",
       {"PK\3\4\0\0\x08\x08\0\0"s, "PK\3\4\x14\0\0\0archive/data.pkl"s}},
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
      {a + "an array, but must be an object", {"{\"a\":" + std::string(100'000, '[')}},
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
  refusals.push_back({"is not supported", {slurp(golden("f8.safetensors"))}});
  expect_all_refused(refusals, "bad.safetensors", read_safetensors);
}

TEST(SafetensorsAndNpy, RefuseTruncationAtEveryByte) {
  for (const std::string name : {"version1.npy", "version2.npy", "fortran.npy", "bool.npy", "all.safetensors",
                                 "f32.safetensors", "none.safetensors"}) {
    const std::string bytes = slurp(golden(name));
    const auto parse = [&](std::string_view cut) {
      name.ends_with(".npy") ? void(io::parse_npy(cut, name)) : void(io::parse_safetensors(cut, name));
    };
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THROW(parse(std::string_view(bytes).substr(0, length)), FormatError) << name << " " << length;
    }
  }
}

TEST(Safetensors, RefusesToWriteWhatTheFormatCannotHold) {
  const TemporaryFolder folder;
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"__metadata__", "", "cannot be named __metadata__"},
      {std::string(4097, 'a'), "", "exceeds the limit of 4096"},
      {"\xff", "", "\"\\xff\" is not UTF-8"},
      {"a", "\xc3", "\"\\xc3\" is not UTF-8"}};
  for (const auto& [name, metadata, message] : cases) {
    const SafeTensors content{.tensors = {{name, counted({1}, Dtype::f32)}}, .metadata = {{"key", metadata}}};
    const auto write = [&] { write_safetensors(folder / "a.safetensors", content); };
    EXPECT_NE(message_of<FormatError>(write).find(message), std::string::npos) << message;
  }
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace qkv::test
