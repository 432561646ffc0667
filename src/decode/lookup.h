// Guesses of what a text goes on with, from what followed its last tokens before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace qkv::inline decoding {

// What followed the last place before the end where the most of the last tokens occurred, up to four and at least two
// of them: at most `most` tokens.
std::vector<std::int32_t> tokens_that_followed(std::span<const std::int32_t> text, std::size_t most);

// Drafts for one text; limits them so that rejected drafts cost a bounded share of the time.
class LookupDraft {
 public:
  // At most `most` tokens.
  std::vector<std::int32_t> guess(std::span<const std::int32_t> text, std::size_t most);
  // How many of the guessed tokens were right.
  void learn(std::size_t guessed, std::size_t right);

 private:
  // In steps of a model that reads one token: what a guessed token costs beside it, at most; what may be lost at first,
  // and for each step; and the most that is put aside.
  static constexpr double kCost = 0.4, kFirstLoss = 1.2, kLoss = 0.03, kMost = 3;

  double saved_ = kFirstLoss;
};

}  // namespace qkv::inline decoding
