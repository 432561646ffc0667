// Looks up the last tokens of a text in the text itself.
#include "decode/lookup.h"

#include <algorithm>

namespace qkv::inline decoding {

std::vector<std::int32_t> tokens_that_followed(std::span<const std::int32_t> text, std::size_t most) {
  constexpr std::size_t kLongest = 4, kShortest = 2;
  std::size_t place = 0, longest = kShortest - 1;
  for (std::size_t end = text.size(); end-- > kShortest;) {
    std::size_t same = 0;
    while (same < std::min(kLongest, end) && text[end - 1 - same] == text[text.size() - 1 - same]) ++same;
    if (same <= longest) continue;
    longest = same;
    place = end;
    if (same == kLongest) break;
  }
  if (place == 0) return {};
  const auto followed = text.subspan(place, std::min(most, text.size() - place));
  return {followed.begin(), followed.end()};
}

std::vector<std::int32_t> LookupDraft::guess(std::span<const std::int32_t> text, std::size_t most) {
  saved_ = std::min(saved_ + kLoss, kMost);
  const auto affordable = static_cast<std::size_t>(std::max(saved_, 0.0) / kCost);
  return tokens_that_followed(text, std::min(most, affordable));
}

void LookupDraft::learn(std::size_t guessed, std::size_t right) {
  saved_ += static_cast<double>(right) - kCost * static_cast<double>(guessed);
}

}  // namespace qkv::inline decoding
