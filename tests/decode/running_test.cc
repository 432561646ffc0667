// Sequences that come while others are written: when they join and leave, and that each has what it has alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "io/files_for_test.h"
#include "qkv/decode/generate.h"
#include "qkv/random.h"

namespace qkv {
namespace {

using Tokens = std::vector<std::int32_t>;

// What follows depends on the last token alone. Counts steps and their rows.
class Walk : public NextTokens {
 public:
  explicit Walk(std::int64_t vocab) : table_(Tensor::zeros({vocab, vocab})) {
    Random random(7);
    std::generate_n(table_.data<float>(), vocab * vocab, [&] { return static_cast<float>(random.normal()); });
  }

  std::int64_t vocab() const override { return table_.size(0); }
  MutableTensorView step(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens) override {
    rows.push_back(parents.size());
    logits_ = Tensor::uninitialized({std::ssize(tokens), vocab()});
    float* out = logits_.data<float>();
    for (const std::int32_t token : tokens) out = std::copy_n(table_.data<float>() + token * vocab(), vocab(), out);
    return logits_.view();
  }

  std::vector<std::size_t> rows{};

 private:
  Tensor table_, logits_;
};

class GrowingWalk final : public Walk {
 public:
  using Walk::Walk;
  void add(std::span<const std::int32_t> prompt) override { prompts.emplace_back(prompt.begin(), prompt.end()); }

  std::vector<Tokens> prompts{};
};

constexpr std::int64_t kVocab = 9;

// Sequence i starts from token i and ends after lengths[i] tokens.
ComingSequence coming(const std::vector<std::int64_t>& lengths, std::size_t i) {
  return {.prompt = {static_cast<std::int32_t>(i)}, .start = {.stream = {.line = i}, .max_length = lengths[i]}};
}

// By number, and the order in which they ended. A sequence comes at the times that `is_there` says, or if it is waited
// for.
struct Ran {
  std::map<std::int64_t, Tokens> texts;
  std::vector<std::int64_t> order;
};
Ran run(
    NextTokens& model, const std::vector<std::int64_t>& lengths, const GenerateOptions& options,
    const std::function<bool(std::size_t begun)>& is_there = [](std::size_t) { return true; }) {
  Ran ran;
  std::size_t begun = 0;
  generate_running(
      model,
      [&](bool idle) -> std::optional<ComingSequence> {
        if (begun == lengths.size() || !(idle || is_there(begun))) return std::nullopt;
        return coming(lengths, begun++);
      },
      [&](std::int64_t sequence, std::vector<Hypothesis> found) {
        ran.texts[sequence] = found.at(0).tokens;
        ran.order.push_back(sequence);
      },
      options);
  return ran;
}

TEST(Running, OneThatEndsEarlyMakesRoomForTheNext) {
  const std::vector<std::int64_t> lengths{9, 3, 3, 3, 2};
  GrowingWalk model(kVocab);
  const Ran ran = run(model, lengths, {.ends = {}, .rows = 2});
  // 9 steps of the first one beside three of 3, then the last one alone.
  EXPECT_EQ(model.rows, (std::vector<std::size_t>{2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1}));
  EXPECT_EQ(ran.order, (std::vector<std::int64_t>{1, 2, 0, 3, 4}));
  EXPECT_EQ(model.prompts, (std::vector<Tokens>{{0}, {1}, {2}, {3}, {4}}));
}

TEST(Running, OneThatComesLateJoinsAtOnce) {
  const std::vector<std::int64_t> lengths{9, 3, 3, 3};
  GrowingWalk model(kVocab);
  // The second one is there before the fourth step; those behind it only when they are waited for.
  const Ran ran =
      run(model, lengths, {.ends = {}}, [&](std::size_t begun) { return begun == 1 && model.rows.size() >= 3; });
  EXPECT_EQ(model.rows, (std::vector<std::size_t>{1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(ran.order, (std::vector<std::int64_t>{1, 0, 2, 3}));
}

TEST(Running, EachHasWhatItHasInABatch) {
  const std::vector<std::int64_t> lengths{9, 1, 7, 3, 8, 2, 6, 4};
  std::vector<Tokens> prompts;
  std::vector<SequenceStart> starts;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    auto [prompt, start] = coming(lengths, i);
    prompts.push_back(prompt);
    starts.push_back(start);
  }
  for (const bool samples : {false, true}) {
    for (const std::int64_t beams : {1, 3}) {
      if (samples && beams > 1) continue;
      GenerateOptions options{.ends = {4}, .beams = beams};
      if (samples) options.sampling = Sampling{.temperature = 2, .seed = 5};
      Walk batch(kVocab);
      const auto wanted = generate(batch, prompts, options, starts);
      options.rows = 3 * beams;
      GrowingWalk model(kVocab);
      const Ran ran = run(model, lengths, options, [turn = 0](std::size_t) mutable { return ++turn % 3 != 0; });
      ASSERT_EQ(ran.texts.size(), wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_EQ(ran.texts.at(static_cast<std::int64_t>(i)), wanted[i][0].tokens) << i;
      }
    }
  }
}

TEST(Running, WhatDoesNotFitIsRefused) {
  const auto of_no_tokens = [] {
    GrowingWalk model(kVocab);
    generate_running(
        model, [begun = 0](bool) mutable { return begun++ == 0 ? coming({2}, 0) : ComingSequence{}; },
        [](std::int64_t, const auto&) {}, {.ends = {}});
  };
  EXPECT_EQ(test::message_of<std::invalid_argument>(of_no_tokens), "generate: prompt 1 has no tokens");
  Walk fixed(kVocab);
  EXPECT_THROW(run(fixed, {3}, {.ends = {}}), std::invalid_argument);
  GrowingWalk model(kVocab);
  EXPECT_TRUE(run(model, {}, {.ends = {}}).texts.empty());
  EXPECT_THROW(run(model, std::vector<std::int64_t>(kVocab + 1, 1), {.ends = {}}), std::invalid_argument);
  EXPECT_THROW(run(model, {1}, {.ends = {kVocab}}), std::invalid_argument);
  EXPECT_THROW(generate_running(
                   model, [](bool) { return ComingSequence{}; }, [](std::int64_t, const auto&) {}, {.ends = {}}),
               std::invalid_argument);
}

// Three of five rows go on at once, the others begin as these end, with what they have of their own.
class Queue final : public Walk {
 public:
  using Walk::Walk;

  MutableTensorView step(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens) override {
    std::vector<std::int64_t> sequences;
    for (const std::int64_t parent : parents) {
      const bool begins = sequences_.empty() || parent < 0;
      sequences.push_back(begins ? (parent < 0 ? -1 - parent : parent)
                                 : sequences_.at(static_cast<std::size_t>(parent)));
      if (begins) begun.push_back(sequences.back());
    }
    sequences_ = sequences;
    return Walk::step(parents, tokens);
  }

  std::vector<std::int64_t> begun{};

 private:
  std::vector<std::int64_t> sequences_;
};

TEST(Running, SequencesBeginAsOthersEnd) {
  const std::vector<Tokens> prompts{{1}, {2}, {3}, {4}, {5}};
  GenerateOptions options{.ends = {}, .max_length = 9};
  Walk all(6);
  const auto wanted = generate(all, prompts, options);
  std::vector<SequenceStart> starts(5);
  for (std::size_t i = 0; i < 5; ++i) {
    starts[i].max_length = 9 - static_cast<std::int64_t>(i % 3) * 3;
    starts[i].stream.line = i;
  }
  options.rows = 3;
  Queue queue(6);
  const auto found = generate(queue, prompts, options, starts);
  EXPECT_EQ(queue.begun, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(*std::ranges::max_element(queue.rows), 3u);
  for (std::size_t i = 0; i < 5; ++i) {
    const auto& whole = wanted[i][0].tokens;
    EXPECT_EQ(found[i][0].tokens, Tokens(whole.begin(), whole.begin() + *starts[i].max_length)) << i;
  }
  EXPECT_THROW(generate(queue, prompts, options, std::vector<SequenceStart>(4)), std::invalid_argument);
  starts[1].written.tokens = Tokens(6);
  EXPECT_THROW(generate(queue, prompts, options, starts), std::invalid_argument);
  starts[1].written.tokens = {6};
  EXPECT_THROW(generate(queue, prompts, options, starts), std::invalid_argument);
  options.drafts = Drafts::lookup;
  EXPECT_THROW(generate(queue, prompts, options), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
