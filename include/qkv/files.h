/// \file
/// Arrays in files. Every byte is checked before use: what breaks a rule is a FormatError that names the file, the
/// field and the rule; what the system refuses is an IoError. Nothing is allocated from an unchecked number. Writing is
/// atomic: a temporary file in the same folder, fsync, rename; an existing file is replaced whole or stays as it was.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/api.h"
#include "qkv/tensor.h"

namespace qkv {

/// .npy, versions 1 to 3, C and Fortran order, little-endian: f32, f64, f16, bool and integers of 8 to 64 bits.
QKV_API Tensor read_npy(const std::string& path);
QKV_API void write_npy(const std::string& path, const TensorView& array);

/// safetensors (semantics of the reference implementation, with limits on rank, depth, names and count).
struct SafeTensors {
  std::map<std::string, Tensor> tensors{};
  std::map<std::string, std::string> metadata{};
};
QKV_API SafeTensors read_safetensors(const std::string& path);
QKV_API void write_safetensors(const std::string& path, const SafeTensors& content);

/// A matrix of numbers as f64 [rows, columns]. CSV: commas, one row a line; a first line with a field that begins with
/// a letter or _ (but nan, inf) is a header; blank lines and lines that begin with # are skipped. JSON: an array of
/// arrays of equal length, or one array of numbers (one row), in which "inf", "-inf" and "nan" are numbers.
QKV_API Tensor read_csv(const std::string& path);
QKV_API Tensor read_json_matrix(const std::string& path);
QKV_API Tensor parse_json_matrix(std::string_view text,
                                 const std::string& name);  ///< `name` stands for the file in messages

/// By the ending of the path: .npy, .csv, .json; .safetensors as FILE.safetensors:TENSOR. FormatError for any other.
QKV_API Tensor read_array(const std::string& path);

/// Pairs of texts, a pair a line: text, tab, its translation. FormatError, naming the line, for one without exactly one
/// tab or with an empty side.
struct TextPair {
  std::string source;
  std::string target;
};
QKV_API std::vector<TextPair> read_pairs(const std::string& path);

/// Bytes of a regular file; `limit` bounds them (FormatError beyond).
QKV_API std::string read_file(const std::string& path, std::uint64_t limit = std::uint64_t{1} << 40);
QKV_API void write_file(const std::string& path, std::string_view bytes);

}  // namespace qkv
