// Tokens as a language model reads them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/refuse.h"

namespace qkv::inline models {

// The tokens of some sequences, one after the other, and where each is.
struct TokenRows {
  std::vector<std::int32_t> ids, positions;
  std::vector<std::int64_t> lengths;

  void add(std::span<const std::int32_t> tokens, std::int64_t first) {
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    lengths.push_back(std::ssize(tokens));
    for (std::int64_t i = 0; i < std::ssize(tokens); ++i) positions.push_back(static_cast<std::int32_t>(first + i));
  }
};

inline void check_length(std::int64_t length, std::int64_t positions) {
  refuse_unless(length <= positions, "language_model", "a sequence has {} tokens; the model reads at most {}", length,
                positions);
}

}  // namespace qkv::inline models
