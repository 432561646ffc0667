// Reads GGUF files: the header is walked once and every number in it checked; values and tensors follow on request.
#include "io/arrays/gguf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/stop.h"
#include "io/arrays/safetensors_header.h"
#include "io/files/text.h"
#include "qkv/error.h"

namespace qkv::io {
namespace {

// The types of metadata, with the numbers of the format.
constexpr std::uint32_t kU8 = 0, kI8 = 1, kU16 = 2, kI16 = 3, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8,
                        kArray = 9, kU64 = 10, kI64 = 11, kF64 = 12;
struct ValueType {
  std::string_view name;
  std::uint64_t bytes;  // of a string its length alone
};
constexpr std::array<ValueType, 13> kValueTypes = {{{"u8", 1},
                                                    {"i8", 1},
                                                    {"u16", 2},
                                                    {"i16", 2},
                                                    {"u32", 4},
                                                    {"i32", 4},
                                                    {"f32", 4},
                                                    {"bool", 1},
                                                    {"string", 8},
                                                    {"array", 12},
                                                    {"u64", 8},
                                                    {"i64", 8},
                                                    {"f64", 8}}};
constexpr std::array kIntegerTypes = {kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64};
constexpr std::array kNumberTypes = {kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF32, kF64};
constexpr std::array kStringTypes = {kString};
constexpr std::array kBoolTypes = {kBool};

// Types of tensors by the numbers of the format; empty: there is none, or none any more.
constexpr std::array<std::string_view, 41> kTensorTypes = {
    "F32",   "F16",    "Q4_0",  "Q4_1", "",     "",        "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
    "IQ2_S", "IQ4_XS", "I8",    "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16",  "",       "",
    "",      "TQ1_0",  "TQ2_0", "",     "",     "",        "MXFP4",  "NVFP4"};
constexpr std::string_view kReadTypes = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K, Q6_K";

constexpr std::string_view kGgufMagic = "GGUF";
constexpr std::uint64_t kMostKeys = 100'000;
constexpr std::uint64_t kLongestKey = 65'535;
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kLargestAlignment = 1 << 16;

std::string name_of_type(std::uint32_t type, bool is_array) {
  return fmt::format("{}{}", is_array ? "an array of " : "", kValueTypes[type].name);
}

std::uint64_t rounded_up(std::uint64_t size, std::uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

}  // namespace

Dims GgufTensor::shape() const {
  Dims dims;
  for (std::uint32_t i = 0; i < rank; ++i) dims.push_back(static_cast<std::int64_t>(extents[i]));
  return dims;
}

// Bytes of the header in order, read many at once; every size is held against what is left.
class GgufFile::Cursor {
 public:
  Cursor(FileSource& source, const std::string& name, std::string what = "")
      : source_(source), name_(name), what_(std::move(what)), buffer_(kBuffer, '\0') {}

  std::uint64_t remaining() const { return source_.remaining() + (filled_ - next_); }
  std::uint64_t position() const { return source_.position() - (filled_ - next_); }

  // The item being read, for messages: "key", "tensor 3".
  void describe(std::string what) { what_ = std::move(what); }
  [[noreturn]] void refuse(const std::string& rule) const {
    throw FormatError(fmt::format("{}: {}{}{}", name_, what_, what_.empty() ? "" : ": ", rule));
  }
  void need(std::uint64_t bytes, std::string_view part) const {
    if (bytes > remaining()) refuse(fmt::format("{} needs {} bytes, but {} are left", part, bytes, remaining()));
  }

  void read(char* to, std::uint64_t count) {
    while (count > 0) {
      if (next_ == filled_) fill();
      const std::size_t piece = static_cast<std::size_t>(std::min<std::uint64_t>(count, filled_ - next_));
      std::memcpy(to, buffer_.data() + next_, piece);
      next_ += piece, to += piece, count -= piece;
    }
  }
  template <class T>
  T number(std::string_view part) {
    need(sizeof(T), part);
    T value;
    read(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }
  std::string string(std::string_view part, std::uint64_t longest = std::numeric_limits<std::uint64_t>::max()) {
    if (remaining() < sizeof(std::uint64_t)) need(sizeof(std::uint64_t), fmt::format("the length of {}", part));
    const auto size = number<std::uint64_t>(part);
    if (size > longest) refuse(fmt::format("{} of {} bytes exceeds the limit of {}", part, size, longest));
    need(size, part);
    std::string text(static_cast<std::size_t>(size), '\0');
    read(text.data(), size);
    if (!code_points_in(text)) refuse(fmt::format("{} is not UTF-8: {}", part, quote(text)));
    return text;
  }
  // A value of an integer type as i64; larger u64 are refused.
  std::int64_t integer(std::uint32_t type, std::string_view part) {
    switch (type) {
      case kU8:
        return number<std::uint8_t>(part);
      case kI8:
        return number<std::int8_t>(part);
      case kU16:
        return number<std::uint16_t>(part);
      case kI16:
        return number<std::int16_t>(part);
      case kU32:
        return number<std::uint32_t>(part);
      case kI32:
        return number<std::int32_t>(part);
      case kI64:
        return number<std::int64_t>(part);
      default:
        break;
    }
    const auto value = number<std::uint64_t>(part);
    if (value > INT64_MAX) refuse(fmt::format("{} is {}, must be below 2^63", part, value));
    return static_cast<std::int64_t>(value);
  }
  double real(std::uint32_t type, std::string_view part) {
    const double value = type == kF32   ? static_cast<double>(number<float>(part))
                         : type == kF64 ? number<double>(part)
                                        : static_cast<double>(integer(type, part));
    if (!std::isfinite(value)) refuse(fmt::format("{} is {}, must be finite", part, value));
    return value;
  }
  bool boolean(std::string_view part) {
    const auto byte = number<std::uint8_t>(part);
    if (byte > 1) refuse(fmt::format("{} is the byte {}, but a bool must be 0 or 1", part, byte));
    return byte == 1;
  }
  void skip(std::uint64_t count) {
    const std::uint64_t buffered = std::min<std::uint64_t>(count, filled_ - next_);
    next_ += static_cast<std::size_t>(buffered);
    source_.skip(count - buffered);
  }

 private:
  static constexpr std::size_t kBuffer = 1 << 16;

  void fill() {
    filled_ = static_cast<std::size_t>(std::min<std::uint64_t>(kBuffer, source_.remaining()));
    next_ = 0;
    source_.read(buffer_.data(), filled_);
  }

  FileSource& source_;
  const std::string& name_;
  std::string what_;
  std::string buffer_;
  std::size_t next_ = 0, filled_ = 0;
};

class GgufFile::HeaderReader {
 public:
  explicit HeaderReader(GgufFile& file) : file_(file), cursor_(*file.source_, file.path_) {}

  void read() {
    char magic[kGgufMagic.size()];
    cursor_.need(sizeof magic, "the magic");
    cursor_.read(magic, sizeof magic);
    if (std::string_view(magic, sizeof magic) != kGgufMagic) cursor_.refuse("not a GGUF file: wrong magic");
    const auto version = cursor_.number<std::uint32_t>("the version");
    if (version << 16 == 0 && version != 0) cursor_.refuse("big-endian files are not supported");
    if (version != 2 && version != 3) {
      cursor_.refuse(fmt::format("version {} is not supported; supported: 2, 3", version));
    }
    const auto tensors = cursor_.number<std::uint64_t>("the number of tensors");
    const auto keys = cursor_.number<std::uint64_t>("the number of keys");
    if (tensors > kMostTensors) cursor_.refuse(fmt::format("{} tensors exceed the limit of {}", tensors, kMostTensors));
    if (keys > kMostKeys) cursor_.refuse(fmt::format("{} keys exceed the limit of {}", keys, kMostKeys));
    StopTurns turns;
    for (std::uint64_t i = 0; i < keys; ++i) {
      turns.next();
      read_value(i);
    }
    check_alignment();
    read_tensors(tensors);
  }

 private:
  std::string read_name(std::string_view part, std::uint64_t longest) {
    std::string name = cursor_.string(part, longest);
    if (name.empty()) cursor_.refuse(fmt::format("{} is empty", part));
    name_bytes_ += name.size();
    if (name_bytes_ > kMostNameBytes) {
      cursor_.refuse(fmt::format("keys and names take more than {} bytes", kMostNameBytes));
    }
    return name;
  }

  std::uint32_t read_type(std::string_view part) {
    const auto type = cursor_.number<std::uint32_t>(part);
    if (type >= kValueTypes.size()) {
      cursor_.refuse(fmt::format("{} is {}, must be 0 to {}", part, type, kValueTypes.size() - 1));
    }
    return type;
  }

  void read_value(std::uint64_t index) {
    cursor_.describe(fmt::format("key {}", index));
    const std::string key = read_name("the key", kLongestKey);
    cursor_.describe("key " + quote(key));
    if (file_.values_.contains(key)) cursor_.refuse("appears twice");
    Value value{read_type("the type"), false, 1, 0};
    if (value.type == kArray) {
      value.is_array = true;
      value.type = read_type("the type of the elements");
      if (value.type == kArray) cursor_.refuse("arrays of arrays are not supported");
      value.count = cursor_.number<std::uint64_t>("the number of elements");
    }
    const std::uint64_t each = kValueTypes[value.type].bytes;
    if (value.count > cursor_.remaining() / each) {
      cursor_.refuse(fmt::format("{} values of {} need at least {} bytes each, but {} are left", value.count,
                                 kValueTypes[value.type].name, each, cursor_.remaining()));
    }
    value.begin = cursor_.position();
    if (value.type != kString && value.type != kBool) {
      cursor_.skip(value.count * each);
    } else {
      StopTurns turns;
      for (std::uint64_t i = 0; i < value.count; ++i) {
        turns.next();
        if (value.type == kBool) {
          cursor_.boolean("the value");
        } else {
          cursor_.string("the string");
        }
      }
    }
    file_.values_.emplace(key, value);
  }

  void check_alignment() {
    cursor_.describe("");
    const auto found = file_.values_.find(kAlignmentKey);
    if (found == file_.values_.end()) return;
    const std::uint64_t behind_buffer = file_.source_->position();
    alignment_ = static_cast<std::uint64_t>(file_.integer(kAlignmentKey, 8, kLargestAlignment));
    if ((alignment_ & (alignment_ - 1)) != 0) {
      file_.refuse(kAlignmentKey, fmt::format("is {}, must be a power of two", alignment_));
    }
    file_.source_->seek(behind_buffer);
  }

  void read_tensors(std::uint64_t count) {
    constexpr std::uint64_t kLeast = 24;  // bytes of an entry
    if (count > cursor_.remaining() / kLeast) {
      cursor_.refuse(
          fmt::format("{} tensors need at least {} bytes each, but {} are left", count, kLeast, cursor_.remaining()));
    }
    file_.tensors_.reserve(static_cast<std::size_t>(count));
    StopTurns turns;
    for (std::uint64_t i = 0; i < count; ++i) {
      turns.next();
      read_tensor(i);
    }
    cursor_.describe("");
    std::vector<std::string_view> names;
    for (const GgufTensor& tensor : file_.tensors_) names.push_back(tensor.name);
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) cursor_.refuse(fmt::format("tensor {} appears twice", quote(*twice)));
    place_tensors();
  }

  void read_tensor(std::uint64_t index) {
    cursor_.describe(fmt::format("tensor {}", index));
    GgufTensor tensor{};
    tensor.name = read_name("the name", kLongestTensorName);
    cursor_.describe("tensor " + quote(tensor.name));
    tensor.rank = cursor_.number<std::uint32_t>("the number of dimensions");
    if (tensor.rank > GgufTensor::kMostRank) {
      cursor_.refuse(fmt::format("{} dimensions exceed the limit of {}", tensor.rank, GgufTensor::kMostRank));
    }
    for (std::uint32_t i = tensor.rank; i-- > 0;) tensor.extents[i] = cursor_.number<std::uint64_t>("an extent");
    tensor.type = read_tensor_type();
    const std::span extents(tensor.extents.data(), tensor.rank);
    const auto as_f32 = byte_count(extents, Dtype::f32);
    if (!as_f32) cursor_.refuse(fmt::format("shape [{}] has too many elements", fmt::join(extents, ", ")));
    const GgufBlock block = block_of(tensor.type);
    const std::uint64_t row = extents.empty() ? 1 : extents.back();
    if (row % block.elements != 0) {
      cursor_.refuse(fmt::format("rows of {} elements of {} must be multiples of {}", row, name_of_tensor(tensor.type),
                                 block.elements));
    }
    tensor.bytes = *as_f32 / size_of(Dtype::f32) / block.elements * block.bytes;
    tensor.begin = cursor_.number<std::uint64_t>("the offset");
    file_.tensors_.push_back(std::move(tensor));
  }

  static std::string_view name_of_tensor(GgufType type) { return kTensorTypes[static_cast<std::uint32_t>(type)]; }

  GgufType read_tensor_type() {
    const auto number = cursor_.number<std::uint32_t>("the type");
    const auto type = static_cast<GgufType>(number);
    if (block_of(type).elements > 0) return type;
    const bool named = number < kTensorTypes.size() && !kTensorTypes[number].empty();
    cursor_.refuse(fmt::format("type {} is {}; supported: {}", named ? kTensorTypes[number] : fmt::to_string(number),
                               named ? "not supported" : "unknown", kReadTypes));
  }

  // The tensors lie one behind the other, each at a multiple of the alignment.
  void place_tensors() {
    if (file_.tensors_.empty()) return;
    const std::uint64_t size = cursor_.position() + cursor_.remaining();
    const std::uint64_t begin = rounded_up(cursor_.position(), alignment_);
    if (begin > size) cursor_.refuse("the file ends before its data");
    std::uint64_t end = 0;
    for (GgufTensor& tensor : file_.tensors_) {
      cursor_.describe("tensor " + quote(tensor.name));
      const std::uint64_t expected = rounded_up(end, alignment_);
      if (tensor.begin != expected) {
        cursor_.refuse(fmt::format("offset {} must be {}, where the tensors before it end", tensor.begin, expected));
      }
      if (expected > size - begin || tensor.bytes > size - begin - expected) {
        cursor_.refuse(fmt::format("its {} bytes at offset {} reach beyond the {} bytes of data", tensor.bytes,
                                   expected, size - begin));
      }
      end = expected + tensor.bytes;
      tensor.begin += begin;
    }
    cursor_.describe("");
    if (size - begin > rounded_up(end, alignment_)) {
      cursor_.refuse(fmt::format("the tensors hold {} bytes, but the file has {} bytes of data", end, size - begin));
    }
  }

  GgufFile& file_;
  Cursor cursor_;
  std::uint64_t alignment_ = kDefaultAlignment;
  std::uint64_t name_bytes_ = 0;
};

GgufFile::GgufFile(const std::string& path) : path_(path), source_(std::make_unique<FileSource>(path)) {
  HeaderReader(*this).read();
}

bool GgufFile::has(std::string_view key) const { return values_.contains(key); }

const GgufFile::Value& GgufFile::value(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) throw FormatError(fmt::format("{}: key {} is missing", path_, quote(key)));
  return found->second;
}

const GgufFile::Value& GgufFile::value(std::string_view key, bool is_array, std::span<const std::uint32_t> types,
                                       std::string_view wanted) const {
  const Value& found = value(key);
  if (found.is_array != is_array || std::ranges::find(types, found.type) == types.end()) {
    refuse(key, fmt::format("must be {}, is {}", wanted, name_of_type(found.type, found.is_array)));
  }
  return found;
}

GgufFile::Cursor GgufFile::cursor(std::string_view key, const Value& value) {
  source_->seek(value.begin);
  return {*source_, path_, "key " + quote(key)};
}

void GgufFile::refuse(std::string_view key, std::string_view rule) const {
  throw FormatError(fmt::format("{}: key {}: {}", path_, quote(key), rule));
}

std::string GgufFile::string(std::string_view key) {
  return cursor(key, value(key, false, kStringTypes, "a string")).string("the string");
}

std::int64_t GgufFile::integer(std::string_view key, std::int64_t min, std::int64_t max) {
  const Value& found = value(key, false, kIntegerTypes, "an integer");
  Cursor at = cursor(key, found);
  const std::int64_t integer = at.integer(found.type, "the value");
  if (integer < min || integer > max) refuse(key, fmt::format("is {}, must be {} to {}", integer, min, max));
  return integer;
}

double GgufFile::number(std::string_view key) {
  const Value& found = value(key, false, kNumberTypes, "a number");
  Cursor at = cursor(key, found);
  return at.real(found.type, "the value");
}

bool GgufFile::boolean(std::string_view key) {
  return cursor(key, value(key, false, kBoolTypes, "a bool")).boolean("the value");
}

std::size_t GgufFile::count(std::string_view key) const {
  const Value& found = value(key);
  if (!found.is_array) refuse(key, fmt::format("must be an array, is {}", name_of_type(found.type, false)));
  return static_cast<std::size_t>(found.count);
}

void GgufFile::for_each_string(std::string_view key, const std::function<void(std::size_t, std::string_view)>& visit) {
  const Value& found = value(key, true, kStringTypes, "an array of strings");
  Cursor at = cursor(key, found);
  for (std::size_t i = 0; i < found.count; ++i) visit(i, at.string("the string"));
}

void GgufFile::for_each_integer(std::string_view key, const std::function<void(std::size_t, std::int64_t)>& visit) {
  const Value& found = value(key, true, kIntegerTypes, "an array of integers");
  Cursor at = cursor(key, found);
  for (std::size_t i = 0; i < found.count; ++i) visit(i, at.integer(found.type, fmt::format("element {}", i)));
}

void GgufFile::for_each_number(std::string_view key, const std::function<void(std::size_t, double)>& visit) {
  const Value& found = value(key, true, kNumberTypes, "an array of numbers");
  Cursor at = cursor(key, found);
  for (std::size_t i = 0; i < found.count; ++i) visit(i, at.real(found.type, fmt::format("element {}", i)));
}

Tensor GgufFile::read(const GgufTensor& tensor) {
  source_->seek(tensor.begin);
  const std::string where = fmt::format("{}: tensor {}", path_, quote(tensor.name));
  if (tensor.type == GgufType::f32) return read_elements(*source_, tensor.shape(), Dtype::f32, where);
  if (tensor.type == GgufType::f16) return read_elements(*source_, tensor.shape(), Dtype::f16, where);
  if (tensor.type == GgufType::bf16) return read_elements(*source_, tensor.shape(), Dtype::bf16, where);
  Tensor widened = Tensor::uninitialized(tensor.shape(), Dtype::f32);
  const GgufBlock block = block_of(tensor.type);
  float* to = widened.data<float>();
  for_each_piece(tensor, [&](std::string_view blocks) {
    widen_blocks(tensor.type, blocks, to);
    to += blocks.size() / block.bytes * block.elements;
  });
  return widened;
}

Tensor GgufFile::read_blocks(const GgufTensor& tensor) {
  const Dims shape = tensor.shape();
  const bool adds_minima = tensor.type == GgufType::q4_0;
  const GgufBlock block = block_of(adds_minima ? GgufType::q4_1 : tensor.type);
  const std::int64_t row =
      shape[1] / static_cast<std::int64_t>(block.elements) * static_cast<std::int64_t>(block.bytes);
  Tensor all = Tensor::uninitialized({shape[0], row}, Dtype::u8);
  std::uint8_t* to = all.data<std::uint8_t>();
  source_->seek(tensor.begin);
  for_each_piece(tensor, [&](std::string_view blocks) {
    std::string with_minima;
    if (adds_minima) {
      if (!add_minima(blocks, with_minima)) {
        throw FormatError(fmt::format("{}: tensor {} has a scale above 8,188, which q4 does not hold; use f32", path_,
                                      quote(tensor.name)));
      }
      blocks = with_minima;
    }
    std::memcpy(to, blocks.data(), blocks.size());
    to += blocks.size();
  });
  return all;
}

void GgufFile::for_each_piece(const GgufTensor& tensor, const std::function<void(std::string_view)>& use) {
  constexpr std::uint64_t kPiece = 4096;  // blocks
  std::string blocks;
  for (std::uint64_t left = tensor.bytes; left > 0; left -= blocks.size()) {
    check_stop();
    blocks.resize(static_cast<std::size_t>(std::min(left, kPiece * block_of(tensor.type).bytes)));
    source_->read(blocks.data(), blocks.size());
    use(blocks);
  }
}

}  // namespace qkv::io
