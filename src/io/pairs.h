// A file of pairs, line by line: what is one, and what is wrong with the others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "qkv/files.h"
#include "qkv/text_lines.h"

namespace qkv::io {

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
