// The search against models whose every probability is known: the next token depends on the last one alone.
#include "qkv/decode/generate.h"

#include "qkv/error.h"
#include "qkv/random.h"

namespace qkv {
namespace {

using Table = std::vector<std::vector<float>>;  // [last token][next token]: logits
using Tokens = std::vector<std::int32_t>;

// Each sequence of the batch may have a table of its own. Follows its rows by their parents, as a cache would.
class Chains final : public NextTokens {
 public:
  explicit Chains(std::vector<Table> tables) : tables_(std::move(tables)) {}

  std::int64_t vocab() const override { return static_cast<std::int64_t>(tables_[0].size()); }

  MutableTensorView step(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens) override {
    std::vector<std::size_t> sequences;
    for (const std::int64_t parent : parents) {
      const auto at = static_cast<std::size_t>(parent);
      sequences.push_back(steps_ == 0 ? at : sequences_.at(at));
    }
    sequences_ = sequences;
    ++steps_;
    logits_ = Tensor::uninitialized({static_cast<std::int64_t>(parents.size()), vocab()});
    float* out = logits_.data<float>();
    for (std::size_t row = 0; row < parents.size(); ++row) {
      const auto& next = tables_.at(sequences_[row]).at(static_cast<std::size_t>(tokens[row]));
      out = std::copy(next.begin(), next.end(), out);
    }
    return logits_.view();
  }

  int steps() const { return steps_; }

 private:
  std::vector<Table> tables_;
  std::vector<std::size_t> sequences_;
  Tensor logits_;
  int steps_ = 0;
};

float ln(double probability) { return static_cast<float>(std::log(probability)); }

Table random_table(std::size_t vocab, std::uint64_t seed) {
  Random random(seed);
  Table table(vocab, std::vector<float>(vocab));
  for (auto& row : table) {
    for (float& x : row) x = static_cast<float>(2 * random.normal());
  }
  return table;
}

// Start 0, end 1. After the start: 2 with 0.6, 3 with 0.4. After 2: end 0.3, 2 0.3, 3 0.4. After 3: end 0.9.
const Table kGarden{{ln(0.001), ln(0.001), ln(0.598), ln(0.4)},
                    {0, 0, 0, 0},
                    {ln(0.001), ln(0.3), ln(0.299), ln(0.4)},
                    {ln(0.02), ln(0.9), ln(0.04), ln(0.04)}};

struct Found {
  Tokens tokens;
  double score;
  int steps;
};

Found best_of(const Table& table, const GenerateOptions& options) {
  Chains model({table});
  const auto found = generate(model, 1, options);
  EXPECT_EQ(found.size(), 1u);
  EXPECT_EQ(found.at(0).size(), 1u);
  return {found.at(0).at(0).tokens, found[0][0].score, model.steps()};
}

// The best sequence with each number of beams, and its score where that is known.
void expect_best(const Table& table, GenerateOptions options, const std::vector<std::int64_t>& beams,
                 const Tokens& tokens, std::optional<double> score = {}) {
  for (const std::int64_t count : beams) {
    options.beams = count;
    const Found found = best_of(table, options);
    EXPECT_EQ(found.tokens, tokens) << count << " beams";
    EXPECT_NEAR(found.score, score.value_or(found.score), 1e-6) << count << " beams";
  }
}

TEST(Generate, GreedyTakesTheMostProbableTokenAndBeamsFindWhatItMisses) {
  expect_best(kGarden, {.ends = {1}}, {1}, {2, 3, 1}, std::log(0.598 * 0.4 * 0.9) / 3);
  EXPECT_EQ(best_of(kGarden, {.ends = {1}}).steps, 3);
  Chains model({kGarden});
  const auto both = generate(model, 1, {.ends = {1}, .beams = 2, .nbest = 2, .length_penalty = 0});
  ASSERT_EQ(both[0].size(), 2u);
  EXPECT_EQ(both[0][0].tokens, (Tokens{3, 1}));  // 0.36
  EXPECT_NEAR(both[0][0].score, std::log(0.4 * 0.9), 1e-6);
  EXPECT_EQ(both[0][1].tokens, (Tokens{2, 3, 1}));  // 0.215
  EXPECT_NEAR(both[0][1].score, std::log(0.598 * 0.4 * 0.9), 1e-6);
}

// All sequences that end, or that max_length cuts, with their normalised scores.
void enumerate(const Table& table, Tokens& tokens, double score, std::size_t length, double penalty,
               const std::function<void(const Tokens&, double)>& visit) {
  const auto& logits = table[static_cast<std::size_t>(tokens.empty() ? 0 : tokens.back())];
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const double next = score + static_cast<double>(logits[token]) - std::log(sum);
    tokens.push_back(static_cast<std::int32_t>(token));
    if (token == 1 || tokens.size() == length) {
      visit(tokens, next / std::pow(static_cast<double>(tokens.size()), penalty));
    } else {
      enumerate(table, tokens, next, length, penalty, visit);
    }
    tokens.pop_back();
  }
}

TEST(Generate, EnoughBeamsFindTheBestOfAll) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const double penalty : {0.0, 0.6, 1.0, 2.0}) {
      const Table table = random_table(4, seed);
      Tokens best, tokens;
      double best_score = -1e30;
      enumerate(table, tokens, 0, 4, penalty, [&](const Tokens& found, double score) {
        if (score > best_score) best = found, best_score = score;
      });
      expect_best(table, {.ends = {1}, .max_length = 4, .length_penalty = penalty}, {256}, best, best_score);
    }
  }
}

TEST(Generate, ASequenceDoesNotKnowItsCompany) {
  std::vector<Table> tables;
  for (std::uint64_t seed = 0; seed < 9; ++seed) tables.push_back(random_table(12, seed));
  const GenerateOptions cases[] = {{.ends = {1}, .max_length = 20},
                                   {.ends = {1}, .max_length = 20, .sampling = Sampling{.seed = 5}},
                                   {.ends = {1}, .max_length = 20, .beams = 3, .nbest = 3}};
  for (const GenerateOptions& options : cases) {
    Chains together(tables);
    const auto all = generate(together, 9, options);
    for (std::uint64_t i = 0; i < 9; ++i) {
      Chains alone({tables[i]});
      const auto one = generate(alone, 1, options, std::vector<RandomStream>{{i}});
      ASSERT_EQ(one[0].size(), all[i].size());
      for (std::size_t n = 0; n < one[0].size(); ++n) {
        EXPECT_EQ(one[0][n].tokens, all[i][n].tokens);
        EXPECT_EQ(one[0][n].score, all[i][n].score);
      }
    }
  }
  Chains alike({tables[0], tables[0]});
  const auto far = generate(alike, 2, cases[1], std::vector<RandomStream>{{0}, {std::uint64_t{1} << 32}});
  EXPECT_NE(far[0][0].tokens, far[1][0].tokens);
}

TEST(Generate, MaxLengthCutsOrForcesTheEnd) {
  const Table endless(3, {0, -100, 1});
  expect_best(endless, {.ends = {1}, .max_length = 4}, {1, 2}, {2, 2, 2, 2});
  expect_best(endless, {.ends = {1}, .forced_end = 1, .max_length = 4}, {1, 2}, {2, 2, 2, 1},
              3 * std::log(std::exp(1.0) / (1 + std::exp(1.0))) / 4);
}

TEST(Generate, TokensMayBeForbiddenOrForced) {
  // The forbidden token keeps its probability, and so does an end that waits for min_length; the forced one has 1.
  expect_best(kGarden, {.ends = {1}, .forbidden = {{2}}, .length_penalty = 0}, {1, 3}, {3, 1}, std::log(0.4 * 0.9));
  expect_best(kGarden, {.ends = {1}, .forced_begin = 3, .length_penalty = 0}, {1, 3}, {3, 1}, std::log(0.9));
  // Where both are forced the end wins.
  expect_best(kGarden, {.ends = {1}, .forced_begin = 3, .forced_end = 1, .max_length = 1}, {1, 3}, {1});
  expect_best(Table(3, {-100, 1, 0}), {.ends = {1}, .min_length = 3}, {1, 2}, {2, 2, 2, 1},
              (1 - 4 * std::log(1 + std::exp(1.0))) / 4);
}

TEST(Generate, NoRunOfForbiddenTokensIsWritten) {
  const Table table{{5, -9, 4, 3}, {0, 0, 0, 0}, {-9, 1, 5, 3}, {-9, 2, 1, 5}};
  const std::pair<std::vector<Tokens>, Tokens> cases[] = {{{}, {0, 0, 0, 0}},
                                                          {{{0}, {2, 2, 2}}, {2, 2, 3, 3}},
                                                          {{{0}, {2, 2, 2}, {3, 3}, {2, 2, 3}}, {2, 2, 1}},
                                                          {{{0, 0}, {0, 2, 2}, {0, 2, 3}}, {2, 1}}};  // with the start
  for (const auto& [forbidden, tokens] : cases) {
    expect_best(table, {.ends = {1}, .forbidden = forbidden, .max_length = 4}, {1}, tokens);
  }
}

// The first token has probabilities 0.5, 0.25, 0.25 for 2, 3 and the end; the second one, too.
TEST(Generate, RepetitionPenaltyAndRenormalizingByHand) {
  const auto expect = [](double penalty, bool renormalize, const Tokens& tokens, double score) {
    expect_best(Table(4, {-99, ln(0.25), ln(0.5), ln(0.25)}),
                {.ends = {1},
                 .max_length = 2,
                 .min_length = 2,
                 .repetition_penalty = penalty,
                 .renormalize = renormalize,
                 .length_penalty = 0},
                {1, 2}, tokens, score);
  };
  expect(1, false, {2, 2}, std::log(0.25));
  expect(1, true, {2, 2}, 2 * std::log(2.0 / 3));  // the end may not come
  // The second 2 has log(0.5) * 3 = log(0.125), less than 3 has.
  expect(3, false, {2, 3}, std::log(0.125));
  expect(3, true, {2, 3}, std::log(2.0 / 3) + std::log(0.25 / 0.375));
  expect(0.5, false, {2, 2}, std::log(0.5) + 0.5 * std::log(0.5));
}

TEST(Generate, EachOfTheEndsEnds) {
  // After the start comes 2 or 3, after 3 comes 1.
  const Table table{{-99, -99, ln(0.6), ln(0.4)}, {0, 0, 0, 0}, {-99, -99, 0, 0}, {-99, ln(0.9), -99, ln(0.1)}};
  expect_best(table, {.ends = {3, 2, 1}, .max_length = 5}, {1, 3}, {2});
  expect_best(table, {.ends = {1, 2}, .max_length = 5, .min_length = 1}, {1, 3}, {3, 1});
}

// Both beams could end in two ways that are each more probable than to go on; what goes on is best in the end.
TEST(Generate, ManyEndsLeaveEnoughBeginnings) {
  Table table(6, std::vector<float>(6, -30));
  table[0][3] = table[0][4] = ln(0.5);
  table[3] = table[4] = {-30, ln(0.4), ln(0.4), -30, -30, ln(0.2)};
  table[5][5] = 0;
  expect_best(table, {.ends = {1, 2}, .max_length = 12, .early_stopping = EarlyStopping::never}, {2},
              {3, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, std::log(0.1) / 12);
}

TEST(Generate, NoTokensInARowComeTwice) {
  // After 0 comes 2, after 2 comes 3, after 3 comes 2; else the next best.
  const Table turns{{0, -9, 5, 1}, {0, 0, 0, 0}, {-9, 2, 3, 5}, {-9, 2, 5, 3}};
  // 0 is the start and the most probable token: the first n tokens in a row begin with it.
  const Table starts{{5, 1, 2}, {0, 0, 0}, {5, 1, 2}};
  const auto expect = [](const Table& table, std::int64_t max_length, std::int64_t ngram, const Tokens& tokens) {
    expect_best(table, {.ends = {1}, .max_length = max_length, .no_repeat_ngram = ngram}, {1}, tokens);
  };
  expect(turns, 8, 0, {2, 3, 2, 3, 2, 3, 2, 3});
  expect(turns, 8, 1, {2, 3, 1});
  expect(turns, 8, 2, {2, 3, 2, 2, 1});
  expect(turns, 8, 3, {2, 3, 2, 3, 3, 2, 2, 3});
  expect(turns, 8, 100, {2, 3, 2, 3, 2, 3, 2, 3});
  expect(starts, 6, 1, {2, 1});
  expect(starts, 6, 2, {0, 2, 0, 1});
  expect(starts, 6, 3, {0, 0, 2, 0, 0, 1});
  expect_best(turns, {.ends = {1}, .max_length = 8, .no_repeat_ngram = 1}, {4}, {2, 3, 1});
}

TEST(Generate, EarlyStoppingTakesWhatEndedFirst) {
  // The short way has 0.5 * 0.5, the long one 0.5 * 0.9^4, whose mean logarithm is better.
  Table table(6, std::vector<float>(6, -30));
  table[0][2] = table[0][3] = ln(0.5);
  table[2][1] = table[2][4] = ln(0.5);
  table[3][3] = ln(0.9);
  table[3][1] = ln(0.1);
  table[4][1] = 0;
  const GenerateOptions patient{.ends = {1}, .max_length = 12, .beams = 2};
  GenerateOptions early = patient;
  early.early_stopping = EarlyStopping::yes;
  EXPECT_LT(best_of(table, early).steps, best_of(table, patient).steps);
  EXPECT_GT(best_of(table, patient).score, best_of(table, early).score);
}

// Two of three beginnings end at once; the third one has the worst probability, and the best one per token if it may go
// on to the end.
TEST(Generate, NeverStoppingEarlyFindsWhatOnlyLengthMakesBest) {
  Table table(4, std::vector<float>(4, -30));
  table[0] = {-30, ln(0.45), ln(0.35), ln(0.2)};
  table[3][3] = ln(0.95);
  table[3][1] = ln(0.05);
  GenerateOptions options{.ends = {1, 2}, .max_length = 12};
  expect_best(table, options, {2}, {1});
  options.beams = 2;
  EXPECT_EQ(best_of(table, options).steps, 1);
  options.early_stopping = EarlyStopping::never;
  expect_best(table, options, {2}, Tokens(12, 3), (std::log(0.2) + 11 * std::log(0.95)) / 12);
  EXPECT_EQ(best_of(table, options).steps, 12);
}

TEST(Generate, SamplingFollowsTheProbabilities) {
  const Table table(4, {ln(0.1), ln(0.2), ln(0.3), ln(0.4)});
  constexpr int kDraws = 20000;
  const auto expect = [&](Sampling sampling, const std::vector<double>& expected) {
    Chains model(std::vector<Table>(kDraws, table));
    sampling.seed = 11;
    const auto drawn = generate(model, kDraws, {.ends = {1}, .max_length = 1, .sampling = sampling});
    std::vector<double> share(4);
    for (const auto& one : drawn) share[static_cast<std::size_t>(one[0].tokens[0])] += 1.0 / kDraws;
    for (std::size_t i = 0; i < 4; ++i) {
      // Five standard deviations of a share over 20,000 draws.
      EXPECT_NEAR(share[i], expected[i], 5 * std::sqrt(expected[i] * (1 - expected[i]) / kDraws) + 1e-12) << i;
    }
  };
  expect({}, {0.1, 0.2, 0.3, 0.4});
  expect({.top_k = 2}, {0, 0, 3.0 / 7, 4.0 / 7});
  expect({.top_p = 0.65}, {0, 0, 3.0 / 7, 4.0 / 7});
  expect({.top_p = 0.75}, {0, 2.0 / 9, 3.0 / 9, 4.0 / 9});
  expect({.top_k = 1}, {0, 0, 0, 1});
  expect({.temperature = 0.5}, {0.01 / 0.3, 0.04 / 0.3, 0.09 / 0.3, 0.16 / 0.3});
  expect({.min_p = 0.6}, {0, 0, 3.0 / 7, 4.0 / 7});
  expect({.min_p = 1}, {0, 0, 0, 1});
  expect({.top_p = 0.75, .min_p = 0.2}, {0, 2.0 / 9, 3.0 / 9, 4.0 / 9});
  expect({.top_k = 3, .top_p = 0.8, .min_p = 0.7}, {0, 0, 3.0 / 7, 4.0 / 7});
}

// Of equal tokens the one whose part of [0, 1) has a number: 53 bits of philox(length, part, line) with the seed.
TEST(Generate, DrawsAreThoseOfTheStream) {
  constexpr int kLines = 64, kTokens = 16;
  Chains model(std::vector<Table>(kLines, Table(kTokens, std::vector<float>(kTokens, 0))));
  const auto drawn = generate(model, kLines, {.ends = {}, .max_length = 2, .sampling = Sampling{.seed = 7}});
  for (std::uint32_t line = 0; line < kLines; ++line) {
    for (std::uint32_t length = 0; length < 2; ++length) {
      const auto bits = philox({length, 0, line, 0}, 7);
      const double number = std::ldexp(bits[0], -32) + std::ldexp(bits[1] / 2048, -53);
      EXPECT_EQ(drawn[line][0].tokens[length], static_cast<int>(std::ceil(number * kTokens)) - 1) << line;
    }
  }
}

// Of 2,000 tokens in a mixed order the i-th has a probability of i + 1 parts of 2,001,000; the shares of those below
// some bounds.
TEST(Generate, SamplingFollowsTheProbabilitiesOfManyTokens) {
  static constexpr std::int64_t kVocab = 2000, kDraws = 1500;
  static constexpr auto place = [](std::int64_t token) { return token * 1201 % kVocab; };
  class Rising final : public NextTokens {
   public:
    std::int64_t vocab() const override { return kVocab; }
    MutableTensorView step(std::span<const std::int64_t> parents, std::span<const std::int32_t>) override {
      logits_ = Tensor::uninitialized({std::ssize(parents), kVocab});
      for (std::int64_t i = 0; i < kVocab; ++i) logits_.data<float>()[i] = static_cast<float>(std::log(place(i) + 1.0));
      for (std::int64_t row = 1; row < logits_.size(0); ++row) {
        std::copy_n(logits_.data<float>(), kVocab, logits_.data<float>() + row * kVocab);
      }
      return logits_;
    }

   private:
    Tensor logits_;
  };
  const auto share_below = [&](const Sampling& sampling, std::int32_t bound) {
    Rising model;
    double share = 0;
    for (const auto& one : generate(model, kDraws, {.ends = {}, .max_length = 1, .sampling = sampling})) {
      share += place(one[0].tokens[0]) < bound ? 1.0 / kDraws : 0;
    }
    return share;
  };
  const double error = 5 * 0.5 / std::sqrt(kDraws);
  const auto parts = [](double least, double most) { return most * (most + 1) - least * (least + 1); };  // above, up to
  EXPECT_NEAR(share_below({.seed = 1}, 1000), parts(0, 1000) / parts(0, 2000), error);
  EXPECT_NEAR(share_below({.seed = 2}, 1900), parts(0, 1900) / parts(0, 2000), error);
  // The largest ones whose parts are half of all begin above 1414.
  EXPECT_EQ(share_below({.top_p = 0.5, .seed = 3}, 1413), 0);
  EXPECT_NEAR(share_below({.top_p = 0.5, .seed = 3}, 1700), parts(1414, 1700) / parts(1414, 2000), error);
  EXPECT_EQ(share_below({.min_p = 0.75, .seed = 4}, 1499), 0);
  EXPECT_NEAR(share_below({.min_p = 0.75, .seed = 4}, 1800), parts(1499, 1800) / parts(1499, 2000), error);
  EXPECT_NEAR(share_below({.top_k = 500, .seed = 5}, 1800), parts(1500, 1800) / parts(1500, 2000), error);
}

// Each continues its prompt, and what is said of the start token holds for the prompt's tokens.
TEST(Generate, PromptsTakeThePlaceOfTheStartToken) {
  const Table table = random_table(6, 5);
  const std::vector<Tokens> prompts{{3}, {0, 2, 5}, {1, 4}};
  GenerateOptions options{.ends = {}, .max_length = 5};
  Chains together(std::vector<Table>(3, table));
  const auto found = generate(together, prompts, options);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Chains alone({table});
    options.start = prompts[i].back();
    EXPECT_EQ(found[i][0].tokens, generate(alone, 1, options)[0][0].tokens) << i;
  }
  // No token may come twice: those of the prompt are gone.
  options.no_repeat_ngram = 1;
  options.max_length = 3;
  Chains repeating({table});
  Tokens all = generate(repeating, std::vector<Tokens>{{0, 2, 5}}, options)[0][0].tokens;
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (Tokens{1, 3, 4}));
  // [2, 5, x] is forbidden for the first x, which would be written.
  options = {.ends = {}, .max_length = 1};
  Chains free({table}), forbidden({table});
  const std::int32_t first = generate(free, std::vector<Tokens>{{0, 2, 5}}, options)[0][0].tokens[0];
  options.forbidden = {{2, 5, first}};
  EXPECT_NE(generate(forbidden, std::vector<Tokens>{{0, 2, 5}}, options)[0][0].tokens[0], first);
  EXPECT_THROW(generate(free, std::vector<Tokens>{{}}, options), std::invalid_argument);
  EXPECT_THROW(generate(free, std::vector<Tokens>{{6}}, options), std::invalid_argument);
}

// It is told what each sequence has written, and ends those that it wants to.
TEST(Generate, OnTokenEndsSequences) {
  const Table table = random_table(6, 7);
  const std::vector<Tokens> prompts{{3}, {0}};
  Chains model(std::vector<Table>(2, table));
  std::vector<Tokens> told(2);
  GenerateOptions options{.ends = {}, .max_length = 6};
  options.on_token = [&](std::int64_t sequence, std::span<const std::int32_t> written) {
    told[static_cast<std::size_t>(sequence)].assign(written.begin(), written.end());
    return sequence == 1 || written.size() < 3;
  };
  const auto found = generate(model, prompts, options);
  EXPECT_EQ(found[0][0].tokens.size(), 3u);
  EXPECT_EQ(found[1][0].tokens.size(), 6u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(told[i], found[i][0].tokens);
  options.beams = 2;
  EXPECT_THROW(generate(model, prompts, options), std::invalid_argument);
}

TEST(Generate, RefusesWhatDoesNotFit) {
  const double nan = std::nan("");
  const GenerateOptions cases[] = {{.start = 4},
                                   {.ends = {-1}},
                                   {.ends = {1, 4}},
                                   {.forbidden = {{4}}},
                                   {.forbidden = {{2, 4}}},
                                   {.forbidden = {{}}},
                                   {.forced_end = 4},
                                   {.forced_begin = 4},
                                   {.max_length = 0},
                                   {.min_length = -1},
                                   {.no_repeat_ngram = -1},
                                   {.repetition_penalty = 0},
                                   {.repetition_penalty = nan},
                                   {.beams = 0},
                                   {.beams = 2, .nbest = 3},
                                   {.length_penalty = nan},
                                   {.beams = 2, .sampling = Sampling{}},
                                   {.sampling = Sampling{.temperature = 0}},
                                   {.sampling = Sampling{.top_k = -1}},
                                   {.sampling = Sampling{.top_p = 0}},
                                   {.sampling = Sampling{.min_p = 1.5}}};
  for (const GenerateOptions& options : cases) {
    Chains model({kGarden});
    EXPECT_THROW(generate(model, 1, options), std::invalid_argument) << &options - cases;
    EXPECT_EQ(model.steps(), 0);
  }
  Chains of_no_batch({kGarden});
  EXPECT_THROW(generate(of_no_batch, -1, {.ends = {1}}), std::invalid_argument);
  for (const float hostile : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Table table = kGarden;
    table[0][3] = hostile;
    Chains model({table});
    EXPECT_THROW(generate(model, 1, {.ends = {1}}), std::invalid_argument);
  }
}

TEST(Generate, EmptyBatchAndStop) {
  Chains model({kGarden});
  EXPECT_TRUE(generate(model, 0, {.ends = {1}}).empty());
  std::stop_source source;
  source.request_stop();
  EXPECT_THROW(generate(model, 1, {.ends = {1}, .stop = source.get_token()}), Stopped);
}

}  // namespace
}  // namespace qkv
