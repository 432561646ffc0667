// Long texts in windows that a language model reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace qkv::inline models {

// Tokens of a text that are read together, of which those from `counted` on count.
struct TextWindow {
  std::size_t text;
  std::int64_t begin, end, counted;
};

// Windows of at most `length` tokens that begin `stride` apart, so that of texts of these lengths every token but the
// first counts in one, the first that holds it.
inline std::vector<TextWindow> text_windows(std::span<const std::int64_t> lengths, std::int64_t length,
                                            std::int64_t stride) {
  std::vector<TextWindow> windows;
  for (std::size_t text = 0; text < lengths.size(); ++text) {
    std::int64_t counted = 1;
    for (std::int64_t begin = 0; counted < lengths[text]; begin += stride) {
      windows.push_back({text, begin, std::min(begin + length, lengths[text]), counted});
      counted = windows.back().end;
    }
  }
  return windows;
}

// How far apart windows are where a text is scored, as transformers' guide to perplexity has it.
inline std::int64_t scoring_stride(std::int64_t positions) { return std::max<std::int64_t>(1, positions / 2); }

}  // namespace qkv::inline models
