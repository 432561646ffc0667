// GGUF: a file of the package `gguf`, its values as NumPy dequantises them, and every broken rule.
#include "io/arrays/gguf.h"

#include "io/gguf_for_test.h"

namespace qkv::test {
namespace {

using io::GgufFile;
using std::string_literals::operator""s;

TEST(Gguf, ReadsTheTensorsThatNumpyDequantises) {
  const auto expected = read_safetensors(gguf_golden("values.safetensors")).tensors;
  for (const char* name : {"types.gguf", "version2.gguf"}) {
    GgufFile file(gguf_golden(name));
    ASSERT_EQ(file.tensors().size(), expected.size());
    for (const auto& tensor : file.tensors()) {
      SCOPED_TRACE(tensor.name);
      const Tensor read = file.read(tensor);
      EXPECT_EQ(read.dtype(), tensor.name == "f16" ? Dtype::f16 : tensor.name == "bf16" ? Dtype::bf16 : Dtype::f32);
      expect_equal(convert(read, expected.at(tensor.name).dtype()), expected.at(tensor.name));
    }
  }
}

// Q4_0 becomes Q4_1: 0 has no sign there.
TEST(Gguf, ReadsBlocksAsTheyAre) {
  GgufFile file(gguf_golden("blocks.gguf"));
  std::set<io::GgufType> types;
  for (const auto& tensor : file.tensors()) {
    if (tensor.rank != 2) continue;
    types.insert(tensor.type);
    const io::GgufType type = tensor.type == io::GgufType::q4_0 ? io::GgufType::q4_1 : tensor.type;
    const Tensor blocks = file.read_blocks(tensor), numbers = file.read(tensor);
    ASSERT_EQ(blocks.shape(), (Dims{numbers.size(0), numbers.size(1) / 32 * (type == io::GgufType::q8_0 ? 34 : 20)}));
    Tensor widened = Tensor::uninitialized(numbers.shape());
    const std::string_view bytes(reinterpret_cast<const char*>(blocks.data<std::uint8_t>()),
                                 static_cast<std::size_t>(blocks.element_count()));
    io::widen_blocks(type, bytes, widened.data<float>());
    for (std::int64_t i = 0; i < numbers.element_count(); ++i) {
      ASSERT_EQ(widened.data<float>()[i], numbers.data<float>()[i]) << tensor.name << i;
    }
  }
  EXPECT_EQ(types, (std::set{io::GgufType::q4_0, io::GgufType::q4_1, io::GgufType::q8_0}));
  std::string made;  // a scale of 8,188 has the minimum -65,504; of 8,192 none
  EXPECT_TRUE(io::add_minima(std::string("\xff\x6f") + std::string(16, '\0'), made));
  EXPECT_EQ(made, std::string("\xff\x6f\xff\xfb") + std::string(16, '\0'));
  EXPECT_FALSE(io::add_minima(std::string("\0\x70", 2) + std::string(16, '\0'), made));
}

TEST(Gguf, ReadsValuesOfEveryType) {
  GgufFile file(gguf_golden("types.gguf"));
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::pair<const char*, std::int64_t> integers[] = {
      {"uint8", 255},         {"int8", -128},         {"uint16", 65535}, {"int16", -32768},
      {"uint32", 4294967295}, {"int32", -2147483648}, {"int64", kLeast}};
  for (const auto& [name, value] : integers) {
    EXPECT_EQ(file.integer("test."s + name, kLeast, kMost), value) << name;
    EXPECT_EQ(file.number("test."s + name), static_cast<double>(value)) << name;
  }
  EXPECT_EQ(file.number("test.float32"), static_cast<double>(0.1f));
  EXPECT_EQ(file.number("test.float64"), 0.1);
  EXPECT_TRUE(file.boolean("test.bool"));
  EXPECT_EQ(file.string("test.string"), "caf\xC3\xA9");
  EXPECT_EQ(file.string("general.architecture"), "test");
  EXPECT_TRUE(file.has("tokenizer.chat_template"));
  EXPECT_FALSE(file.has("tokenizer.chat"));
  std::vector<std::string> strings;
  file.for_each_string("test.strings", [&](std::size_t, std::string_view text) { strings.emplace_back(text); });
  EXPECT_EQ(strings, (std::vector<std::string>{"a", "",
                                               "\xE2\x96\x81"
                                               "b"}));
  EXPECT_EQ(file.count("test.strings"), 3u);
  std::vector<std::int64_t> counts;
  file.for_each_integer("test.integers", [&](std::size_t, std::int64_t value) { counts.push_back(value); });
  EXPECT_EQ(counts, (std::vector<std::int64_t>{1, -2, 3}));
  std::vector<double> numbers;
  file.for_each_number("test.numbers",
                       [&](std::size_t i, double value) { numbers.resize(i), numbers.push_back(value); });
  EXPECT_EQ(numbers, (std::vector<double>{0.5, -1.5}));
}

TEST(Gguf, NamesTheKeyWhoseValueIsOfAnotherType) {
  GgufFile file(gguf_golden("types.gguf"));
  const auto nothing = [](std::size_t, auto) {};
  const std::pair<std::string, std::function<void()>> refusals[] = {
      {"key \"no\" is missing", [&] { file.string("no"); }},
      {"key \"no\" is missing", [&] { file.count("no"); }},
      {"key \"test.int8\": must be a string, is i8", [&] { file.string("test.int8"); }},
      {"key \"test.strings\": must be a string, is an array of string", [&] { file.string("test.strings"); }},
      {"key \"test.bool\": must be an integer, is bool", [&] { file.integer("test.bool", 0, 1); }},
      {"key \"test.float64\": must be an integer, is f64", [&] { file.integer("test.float64", 0, 1); }},
      {"key \"test.int8\": is -128, must be 0 to 7", [&] { file.integer("test.int8", 0, 7); }},
      {"the value is 9223372036854775808, must be below 2^63", [&] { file.integer("test.uint64", 0, 7); }},
      {"key \"test.string\": must be a number, is string", [&] { file.number("test.string"); }},
      {"key \"test.uint8\": must be a bool, is u8", [&] { file.boolean("test.uint8"); }},
      {"key \"test.uint8\": must be an array, is u8", [&] { file.count("test.uint8"); }},
      {"must be an array of strings, is an array of i32", [&] { file.for_each_string("test.integers", nothing); }},
      {"must be an array of integers, is an array of f32", [&] { file.for_each_integer("test.numbers", nothing); }},
      {"must be an array of numbers, is an array of bool", [&] { file.for_each_number("test.bools", nothing); }}};
  for (const auto& [part, call] : refusals) {
    const std::string message = message_of<FormatError>(call);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with(file.path())) << message;
  }
}

// The parts of a file with one key and one tensor of eight numbers, each of which a test may replace.
struct Parts {
  std::string magic = "GGUF", version = u32(3), tensor_count = u64(1), key_count = u64(1), keys = key("a", 4, u32(7)),
              name = text_of("t"), rank = u32(1), extents = u64(8), type = u32(0), offset = u64(0), more_tensors = "",
              data = std::string(32, '\1');
  std::size_t alignment = 32;

  std::string bytes() const {
    std::string file = magic + version + tensor_count + key_count + keys + name + rank + extents + type + offset;
    file += more_tensors;
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data;
  }
};

std::string tensor(const std::string& name, std::uint64_t extent, std::uint32_t type, std::uint64_t offset) {
  return text_of(name) + u32(1) + u64(extent) + u32(type) + u64(offset);
}

std::string with_keys(std::uint64_t count, const std::string& keys) {
  return Parts{.key_count = u64(count), .keys = keys}.bytes();
}
std::string with_value(std::uint32_t type, const std::string& value) { return with_keys(1, key("a", type, value)); }
std::string with_alignment(std::uint32_t value) { return with_keys(1, key("general.alignment", 4, u32(value))); }
std::string with_type(std::uint32_t type) { return Parts{.type = u32(type)}.bytes(); }
std::string with_shape(const std::vector<std::uint64_t>& extents, std::uint32_t type = 0) {
  std::string list;
  for (const std::uint64_t extent : extents) list += u64(extent);
  return Parts{.rank = u32(extents.size()), .extents = list, .type = u32(type)}.bytes();
}
std::string with_second(const std::string& second) {
  return Parts{.tensor_count = u64(2), .more_tensors = second, .data = std::string(64, '\1')}.bytes();
}
// Cut off behind so many bytes.
std::string cut(std::size_t size) { return Parts().bytes().substr(0, size); }

constexpr std::uint64_t kHuge = ~std::uint64_t{0};
const std::string kSupported = "supported: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K, Q6_K";

const Refusals kBroken = {
    {"the magic needs 4 bytes, but 0 are left", {""}},
    {"the magic needs 4 bytes, but 3 are left", {"GGU"}},
    {"not a GGUF file: wrong magic", {Parts{.magic = "GGML"}.bytes(), Parts{.magic = "FUGG"}.bytes()}},
    {"the version needs 4 bytes, but 2 are left", {cut(6)}},
    {"version 0 is not supported; supported: 2, 3", {Parts{.version = u32(0)}.bytes()}},
    {"version 1 is not supported; supported: 2, 3", {Parts{.version = u32(1)}.bytes()}},
    {"version 4 is not supported; supported: 2, 3", {Parts{.version = u32(4)}.bytes()}},
    {"big-endian files are not supported", {Parts{.version = u32(3u << 24)}.bytes()}},
    {"the number of tensors needs 8 bytes, but 4 are left", {cut(12)}},
    {"the number of keys needs 8 bytes, but 0 are left", {cut(16)}},
    {"100001 tensors exceed the limit of 100000", {Parts{.tensor_count = u64(100001)}.bytes()}},
    {"18446744073709551615 tensors exceed the limit of 100000", {Parts{.tensor_count = u64(kHuge)}.bytes()}},
    {"100001 keys exceed the limit of 100000", {Parts{.key_count = u64(100001)}.bytes()}},
    {"18446744073709551615 keys exceed the limit", {Parts{.key_count = u64(kHuge)}.bytes()}},
    {"99999 tensors need at least 24 bytes each", {Parts{.tensor_count = u64(99999)}.bytes()}},
    {"key 0: the length of the key needs 8 bytes, but 7 are left", {cut(31)}},
    {"key 0: the key needs 1 bytes, but 0 are left", {cut(32)}},
    {"key \"a\": the type needs 4 bytes, but 3 are left", {cut(36)}},
    {"key \"a\": 1 values of u32 need at least 4 bytes each, but 3 are left", {cut(40)}},
    {"key 1: the length of the key needs 8 bytes", {Parts{.key_count = u64(2)}.bytes().substr(0, 43)}},
    {"key 0: the key is empty", {with_keys(1, key("", 4, u32(7)))}},
    {"key 0: the key of 65536 bytes exceeds the limit of 65535",
     {with_keys(1, key(std::string(65536, 'k'), 4, u32(7)))}},
    {"key 0: the key of 18446744073709551615 bytes exceeds", {with_keys(1, u64(kHuge) + "a")}},
    {"key 0: the key needs 60000 bytes, but ", {with_keys(1, u64(60000) + "a")}},
    {"key 0: the key is not UTF-8: \"\\xff\"", {with_keys(1, key("\xff", 4, u32(7)))}},
    {"key \"a\\x0a\": the type is 13, must be 0 to 12", {with_keys(1, key("a\n", 13, u32(7)))}},
    {"key \"a\": the type is 13, must be 0 to 12", {with_value(13, u32(7))}},
    {"key \"a\": the type is 4294967295, must be 0 to 12", {with_value(0xffffffff, u32(7))}},
    {"key \"a\": appears twice", {with_keys(2, key("a", 4, u32(7)) + key("a", 4, u32(7)))}},
    {"key \"a\": the value is the byte 2, but a bool must be 0 or 1",
     {with_value(7, "\2"), with_value(7, "\2\0\0\0"s)}},
    {"key \"a\": the value is the byte 255, but a bool", {with_value(9, u32(7) + u64(2) + "\1\xff")}},
    {"key \"a\": the string needs 1000 bytes, but ", {with_value(8, u64(1000))}},
    {"key \"a\": the string needs 18446744073709551615 bytes, but ", {with_value(8, u64(kHuge))}},
    {"key \"a\": the string is not UTF-8: \"\\xc3\"", {with_value(8, text_of("\xC3"))}},
    {"key \"a\": the string is not UTF-8: \"\\xed\\xa0\\x80\"", {with_value(8, text_of("\xED\xA0\x80"))}},
    {"key \"a\": the type of the elements is 13, must be 0 to 12", {with_value(9, u32(13) + u64(0))}},
    {"key \"a\": arrays of arrays are not supported", {with_value(9, u32(9) + u64(1))}},
    {"key \"a\": the number of elements needs 8 bytes, but 4 are left",
     {with_value(9, u32(4) + u64(0)).substr(0, 24 + 9 + 4 + 4 + 4)}},
    {"key \"a\": 1000 values of u32 need at least 4 bytes each, but ", {with_value(9, u32(4) + u64(1000))}},
    {"key \"a\": 18446744073709551615 values of u8 need at least 1 bytes", {with_value(9, u32(0) + u64(kHuge))}},
    {"key \"a\": 4611686018427387904 values of u32 need", {with_value(9, u32(4) + u64(1ull << 62))}},
    {"key \"a\": 2305843009213693952 values of f64 need", {with_value(9, u32(12) + u64(1ull << 61))}},
    {"key \"a\": 1000 values of string need at least 8 bytes each", {with_value(9, u32(8) + u64(1000))}},
    {"key \"a\": the string needs 500 bytes, but ", {with_value(9, u32(8) + u64(2) + text_of("b") + u64(500))}},
    {"key \"a\": the string is not UTF-8: \"b\\xff\"", {with_value(9, u32(8) + u64(1) + text_of("b\xff"))}},
    {"key \"general.alignment\": must be an integer, is string",
     {with_keys(1, key("general.alignment", 8, text_of("32")))}},
    {"key \"general.alignment\": must be an integer, is an array of u32",
     {with_keys(1, key("general.alignment", 9, u32(4) + u64(1) + u32(32)))}},
    {"key \"general.alignment\": is 0, must be 8 to 65536", {with_alignment(0)}},
    {"key \"general.alignment\": is 4, must be 8 to 65536", {with_alignment(4)}},
    {"key \"general.alignment\": is 131072, must be 8 to 65536", {with_alignment(131072)}},
    {"key \"general.alignment\": is 48, must be a power of two", {with_alignment(48)}},
    {"tensor 1: the length of the name needs 8 bytes, but 7 are left",
     {Parts{.tensor_count = u64(2), .name = text_of(std::string(20, 'n'))}.bytes().substr(0, 41 + 52 + 7)}},
    {"tensor 0: the name is empty", {Parts{.name = text_of("")}.bytes()}},
    {"tensor 0: the name of 4097 bytes exceeds the limit of 4096",
     {Parts{.name = text_of(std::string(4097, 'n'))}.bytes()}},
    {"tensor 0: the name needs 4000 bytes, but ", {Parts{.name = u64(4000)}.bytes()}},
    {"tensor 0: the name is not UTF-8: \"\\x80\"", {Parts{.name = text_of("\x80")}.bytes()}},
    {"tensor \"t\": 5 dimensions exceed the limit of 4", {Parts{.rank = u32(5)}.bytes(), with_shape({1, 1, 1, 1, 8})}},
    {"tensor \"t\": 4294967295 dimensions exceed the limit", {Parts{.rank = u32(kHuge)}.bytes()}},
    {"tensor \"t\": shape [4611686018427387904] has too many elements", {with_shape({1ull << 62})}},
    {"tensor \"t\": shape [18446744073709551615] has too many elements", {with_shape({kHuge})}},
    {"tensor \"t\": shape [4294967296, 4294967296] has too many elements", {with_shape({1ull << 32, 1ull << 32})}},
    {"tensor \"t\": shape [0, 4294967296, 4294967296] has too many elements",
     {with_shape({1ull << 32, 1ull << 32, 0})}},
    {"tensor \"t\": type Q5_0 is not supported; " + kSupported, {with_type(6)}},
    {"tensor \"t\": type Q5_1 is not supported; ", {with_type(7)}},
    {"tensor \"t\": type Q8_1 is not supported; ", {with_type(9)}},
    {"tensor \"t\": type Q2_K is not supported; ", {with_type(10)}},
    {"tensor \"t\": type Q3_K is not supported; ", {with_type(11)}},
    {"tensor \"t\": type Q8_K is not supported; ", {with_type(15)}},
    {"tensor \"t\": type IQ2_XXS is not supported; ", {with_type(16)}},
    {"tensor \"t\": type IQ4_XS is not supported; ", {with_type(23)}},
    {"tensor \"t\": type I8 is not supported; ", {with_type(24)}},
    {"tensor \"t\": type F64 is not supported; ", {with_type(28)}},
    {"tensor \"t\": type TQ2_0 is not supported; ", {with_type(35)}},
    {"tensor \"t\": type MXFP4 is not supported; ", {with_type(39)}},
    {"tensor \"t\": type NVFP4 is not supported; ", {with_type(40)}},
    {"tensor \"t\": type 4 is unknown; " + kSupported, {with_type(4)}},
    {"tensor \"t\": type 31 is unknown; ", {with_type(31)}},
    {"tensor \"t\": type 41 is unknown; ", {with_type(41)}},
    {"tensor \"t\": type 4294967295 is unknown; ", {with_type(0xffffffff)}},
    {"tensor \"t\": rows of 8 elements of Q4_0 must be multiples of 32", {with_type(2)}},
    {"tensor \"t\": rows of 33 elements of Q8_0 must be multiples of 32", {with_shape({33, 32}, 8)}},
    {"tensor \"t\": rows of 32 elements of Q4_K must be multiples of 256", {with_shape({32, 8}, 12)}},
    {"tensor \"t\": rows of 1 elements of Q6_K must be multiples of 256", {with_shape({}, 14)}},
    {"tensor \"t\": offset 32 must be 0, where the tensors before it end", {Parts{.offset = u64(32)}.bytes()}},
    {"tensor \"t\": offset 1 must be 0", {Parts{.offset = u64(1)}.bytes()}},
    {"tensor \"t\": offset 18446744073709551615 must be 0", {Parts{.offset = u64(kHuge)}.bytes()}},
    {"tensor \"u\": offset 0 must be 32", {with_second(tensor("u", 8, 0, 0))}},
    {"tensor \"u\": offset 31 must be 32", {with_second(tensor("u", 8, 0, 31))}},
    {"tensor \"u\": offset 64 must be 32", {with_second(tensor("u", 8, 0, 64))}},
    {"tensor \"t\" appears twice", {with_second(tensor("t", 8, 0, 32))}},
    {"tensor \"t\": its 36 bytes at offset 0 reach beyond the 32 bytes of data", {with_shape({9})}},
    {"tensor \"t\": its 4000000000000 bytes at offset 0 reach beyond the 32 bytes", {with_shape({1000000000000})}},
    {"tensor \"u\": its 68 bytes at offset 32 reach beyond the 64 bytes of data",
     {with_second(tensor("u", 17, 0, 32))}},
    {"tensor \"t\": its 34 bytes at offset 0 reach beyond the 32 bytes of data", {with_shape({32}, 8)}},
    {"the tensors hold 28 bytes, but the file has 33 bytes of data", {with_shape({7}) + "\1"}},
    {"the tensors hold 32 bytes, but the file has 96 bytes of data", {Parts{.data = std::string(96, '\1')}.bytes()}},
    {"the file ends before its data", {cut(41 + 33)}},
};

TEST(Gguf, RefusesEveryBrokenRule) {
  std::size_t files = 0;
  for (const auto& [message, broken] : kBroken) files += broken.size();
  EXPECT_GE(files, 80u);
  expect_all_refused(kBroken, "m.gguf", [](const std::string& path) { GgufFile file(path); });
}

// What the table's files are made of is right itself; an alignment of its own, no tensors, no elements are, too.
TEST(Gguf, ReadsWhatBreaksNoRule) {
  const TemporaryFolder folder;
  const auto open = [&](const std::string& bytes) { return GgufFile(folder.put("m.gguf", bytes)); };
  GgufFile file = open(Parts().bytes());
  EXPECT_EQ(file.integer("a", 0, 7), 7);
  expect_equal(file.read(file.tensors()[0]),
               Tensor::of<float>({8}, std::vector<float>(8, std::bit_cast<float>(0x01010101))));
  EXPECT_EQ(open(with_shape({})).tensors()[0].shape(), Dims{});
  EXPECT_EQ(open(Parts{.rank = u32(2), .extents = u64(4) + u64(2)}.bytes()).tensors()[0].shape(), (Dims{2, 4}));
  GgufFile wide = open(Parts{.keys = key("general.alignment", 4, u32(64)), .alignment = 64}.bytes());
  EXPECT_EQ(wide.read(wide.tensors()[0]).element_count(), 8);
  EXPECT_EQ(open(Parts{.extents = u64(0), .data = ""}.bytes()).tensors()[0].bytes, 0u);
  EXPECT_EQ(open("GGUF" + u32(3) + u64(0) + u64(0)).tensors().size(), 0u);
}

}  // namespace
}  // namespace qkv::test
