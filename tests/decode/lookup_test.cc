// Guesses by hand, and what they may cost.
#include "decode/lookup.h"

#include "qkv/decode/generate.h"

namespace qkv {
namespace {

using Guesses = std::vector<std::int32_t>;

TEST(Lookup, GuessesWhatFollowedTheLongestAndThenTheLastPlace) {
  const auto followed = [](const Guesses& text, std::size_t most) { return tokens_that_followed(text, most); };
  EXPECT_EQ(followed({1, 2, 3, 4, 1, 2}, 3), (Guesses{3, 4, 1}));
  EXPECT_EQ(followed({1, 2, 3, 4, 1, 2}, 1), (Guesses{3}));
  EXPECT_EQ(followed({1, 2, 3, 1, 2, 4, 1, 2}, 1), (Guesses{4}));           // the last one of two places
  EXPECT_EQ(followed({9, 1, 2, 3, 7, 1, 2, 4, 9, 1, 2}, 1), (Guesses{3}));  // three tokens rather than two
  EXPECT_EQ(followed({5, 5, 5, 5, 5, 5}, 4), (Guesses{5}));                 // the last place has one behind it
  EXPECT_EQ(followed({1, 2, 3, 4, 5, 2}, 4), Guesses{});                    // one token says too little
  EXPECT_EQ(followed({1, 2}, 4), Guesses{});
  EXPECT_EQ(followed({}, 4), Guesses{});
  EXPECT_EQ(followed({1, 2, 3, 1, 2}, 0), Guesses{});
}

// With a guessed token at 0.4 of a step: what fails costs 1.2 steps and 0.03 of those that are made, at most.
TEST(Lookup, GuessesThatFailCostABoundedShare) {
  const Guesses repeated{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4};
  LookupDraft failing;
  double lost = 0;
  for (int step = 1; step <= 1000; ++step) {
    const std::size_t guessed = failing.guess(repeated, 7).size();
    failing.learn(guessed, 0);
    lost += 0.4 * static_cast<double>(guessed);
    EXPECT_LE(lost, 1.2 + 0.03 * step + 1e-9) << step;
  }
  EXPECT_GT(lost, 25);
  LookupDraft right;
  std::size_t steps = 0, written = 0;
  for (; written < 1000; ++steps) {
    const std::size_t guessed = right.guess(repeated, 7).size();
    right.learn(guessed, guessed);
    written += 1 + guessed;
  }
  EXPECT_LT(steps, 140u);
}

}  // namespace
}  // namespace qkv
