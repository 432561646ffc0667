// GGUF files, versions 2 and 3: metadata by key, and tensors of the types that are read.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/files/byte_source.h"
#include "qkv/tensor.h"

namespace qkv::io {

// With the numbers of the format.
enum class GgufType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  bf16 = 30
};

// Elements lie in blocks of so many, each of so many bytes; 0 of a type that is not read.
struct GgufBlock {
  std::uint64_t elements;
  std::uint64_t bytes;
};
GgufBlock block_of(GgufType type);

// The numbers of whole blocks; of quantised types alone. The same bits as NumPy's in the package `gguf`: every product
// is exact in f32, and at most one sum rounds.
void widen_blocks(GgufType type, std::string_view blocks, float* to);

// Adds blocks of Q4_0 as those of Q4_1 with the same numbers, whose minimum is -8 scales; false if f16 has none.
bool add_minima(std::string_view blocks, std::string& to);

struct GgufTensor {
  static constexpr std::size_t kMostRank = 4;

  std::string name;
  GgufType type;
  std::uint32_t rank;
  std::array<std::uint64_t, kMostRank> extents;  // the file has them in the other order
  std::uint64_t begin;                           // in the file
  std::uint64_t bytes;

  Dims shape() const;
};

// An open file. What opening keeps in memory are keys, names and places; values are read when they are asked for.
class GgufFile {
 public:
  // FormatError, naming the file, the key or tensor and the rule, for a file that breaks one or has a tensor of another
  // type; IoError if it cannot be read.
  explicit GgufFile(const std::string& path);

  const std::string& path() const { return path_; }

  // The values of the metadata. FormatError if the key is missing or its value is of another type.
  bool has(std::string_view key) const;
  std::string string(std::string_view key);
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max);
  double number(std::string_view key);
  bool boolean(std::string_view key);
  // For arrays: visit(index, value) for each element.
  std::size_t count(std::string_view key) const;
  void for_each_string(std::string_view key, const std::function<void(std::size_t, std::string_view)>& visit);
  void for_each_integer(std::string_view key, const std::function<void(std::size_t, std::int64_t)>& visit);
  void for_each_number(std::string_view key, const std::function<void(std::size_t, double)>& visit);

  [[noreturn]] void refuse(std::string_view key, std::string_view rule) const;

  // In the order of the file.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  // f32, f16 and bf16 as they are, other types as f32.
  Tensor read(const GgufTensor& tensor);
  // The blocks of a matrix in Q8_0, Q4_1 or Q4_0: u8 [rows, bytes of a row], the latter as Q4_1. FormatError for a
  // scale that has no such minimum.
  Tensor read_blocks(const GgufTensor& tensor);

 private:
  class Cursor;
  class HeaderReader;
  struct Value {
    std::uint32_t type;  // of an array: of its elements
    bool is_array;
    std::uint64_t count;  // of elements
    std::uint64_t begin;  // in the file
  };

  // use(blocks) for some blocks after the other.
  void for_each_piece(const GgufTensor& tensor, const std::function<void(std::string_view)>& use);
  const Value& value(std::string_view key) const;
  const Value& value(std::string_view key, bool is_array, std::span<const std::uint32_t> types,
                     std::string_view wanted) const;
  Cursor cursor(std::string_view key, const Value& value);

  std::string path_;
  std::unique_ptr<FileSource> source_;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace qkv::io
