// Files of arrays and of pairs, beyond what qkv/files.h offers: bytes that are in memory already, several files that
// belong together, what the name of an array on a command line says, and what is wrong with lines.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/files.h"
#include "qkv/tensor.h"
#include "qkv/text_lines.h"

namespace qkv::io {

// `name` stands for the file in messages.
Tensor parse_npy(std::string_view bytes, const std::string& name);
SafeTensors parse_safetensors(std::string_view bytes, const std::string& name);
Tensor parse_csv(std::string_view text, const std::string& name);

class AtomicFile;
void write_npy(AtomicFile& file, const std::string& path, const TensorView& array);

// FILE.npy, .csv, .json, or .safetensors, which holds the array under `name`.
struct ArrayFile {
  std::string path;
  TensorView array;
  std::string name{};
};
inline constexpr std::string_view kArrayEndings[] = {".npy", ".csv", ".json", ".safetensors"};

// All of them or none: each is whole on disk before the first takes the place of an older one. Errors as write_npy's,
// and FormatError for another ending, and for what check_array_file() refuses.
void write_array_files(std::span<const ArrayFile> files);

// FormatError if the file cannot hold an array of this shape: .csv is for one matrix.
void check_array_file(const std::string& path, const Dims& shape);

// Nested lists, a line for each of the last dimension; "inf", "-inf" and "nan" as read_json_matrix() reads them.
std::string json_of_array(const TensorView& array);

// FILE.safetensors:TENSOR, or a file of one array, which has no name for it.
struct ArrayPath {
  std::string file;
  std::optional<std::string> tensor{};
};
ArrayPath parse_array_path(const std::string& path);

// Whether a path ends so, in small letters or capitals; `ending` is in small letters.
bool has_ending(std::string_view path, std::string_view ending);

// A file of pairs, line by line: what is one, and what is wrong with the others.
struct PairLines {
  std::vector<TextPair> pairs{};
  std::vector<std::int64_t> numbers{};  // of the line of each pair, from 1
  std::vector<std::string> faults{};    // "FILE: line 7 is blank"
};

// Lines as text_lines.h and its `options` have them. At fault are blank ones but the last, those of more or fewer than
// two columns or with an empty one, bytes that are not UTF-8, and texts that hold one of `reserved`.
PairLines read_pair_lines(const std::string& path, std::span<const std::string> reserved = {},
                          const TextLineOptions& options = {});

}  // namespace qkv::io
