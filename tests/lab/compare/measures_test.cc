// What is measured of models: how far they see, gradients at their inputs, memory, and how numbers grow.
#include "lab/compare/catalog.h"
#include "lab/compare/cost.h"
#include "lab/compare/pair_tasks.h"
#include "lab/compare/perturbed.h"
#include "lab/compare/sequence_tasks.h"
#include "sanitizers.h"

namespace qkv::comparison {
namespace {

TEST(Measurable, ReachIsWhatIsCountedFromTheLayers) {
  for (const SequenceKind kind :
       {SequenceKind::rnn, SequenceKind::lstm, SequenceKind::gru, SequenceKind::cnn, SequenceKind::transformer}) {
    for (const std::int64_t length : {1, 2, 40}) {
      SequenceModel model({.kind = kind, .vocab = 9, .embedding = 16, .width = 24}, 1, Dtype::f64);
      EXPECT_EQ(model.measured_reach(length, 2), reach(model.graph(length)));
    }
  }
  for (const TranslatorKind kind :
       {TranslatorKind::fixed, TranslatorKind::additive, TranslatorKind::dot, TranslatorKind::transformer}) {
    TranslatorModel model({.kind = kind, .tokens = reversal_tokens(20), .model_dim = 16, .ff_dim = 8}, 1);
    EXPECT_EQ(model.measured_reach(8, 2), 7);  // the whole source
  }
}

TEST(Measurable, TrainsAndAnswers) {
  SequenceModel reader({.kind = SequenceKind::gru, .vocab = 9, .embedding = 4, .width = 5}, 1);
  TranslatorModel translator({.kind = TranslatorKind::dot, .tokens = reversal_tokens(20), .model_dim = 8}, 1);
  const auto expect_gradients = [](auto& model) {
    model.update([](const std::string&, Parameter& p) { p.want_gradient(); });
    model.train(2, 5);
    double sum = 0;
    model.visit([&](const std::string&, const Parameter& p) {
      for (std::int64_t i = 0; i < p.gradient.element_count(); ++i) sum += std::abs(p.gradient.data<float>()[i]);
    });
    EXPECT_GT(sum, 0);
    EXPECT_NE(model.answer(6), nullptr);
    EXPECT_EQ(model.parameters(), parameter_count(model));
  };
  expect_gradients(reader);
  expect_gradients(translator);
}

std::map<std::int64_t, double> initial_gradients(SequenceKind kind) {
  const auto config = sized(kind, vocab_of(SequenceTask::recall), catalog_task("recall").parameters);
  return input_gradients(SequenceModel(config, 1), 1);
}

// What is left over 128 steps of that over 1, at the start of training.
TEST(InputGradients, VanishInARecurrentNetworkAndNotInATransformer) {
  const auto ratio = [](SequenceKind kind) {
    const auto norms = initial_gradients(kind);
    return norms.at(128) / norms.at(1);
  };
  const double rnn = ratio(SequenceKind::rnn), lstm = ratio(SequenceKind::lstm);
  EXPECT_LT(rnn, 1e-3);
  EXPECT_GT(rnn, 0);
  EXPECT_GT(lstm, rnn);
  EXPECT_GT(ratio(SequenceKind::lstm_open), lstm);
  EXPECT_GT(ratio(SequenceKind::transformer), 0.1);
  // 30 tokens back the convolutions end.
  for (const auto& [distance, norm] : initial_gradients(SequenceKind::cnn)) EXPECT_EQ(norm > 0, distance <= 30);
}

// Along each number of the embedding of the one symbol of an example, which no other token shares.
TEST(InputGradients, AreThoseOfTheLoss) {
  SequenceModel model({.kind = SequenceKind::gru, .vocab = vocab_of(SequenceTask::recall), .embedding = 5, .width = 7},
                      3, Dtype::f64);
  Random random(4);
  const std::vector<SequenceExample> one{draw_recall(3, 2, random)};
  const SequenceBatch batch = side_by_side(one);
  const Tensor gradients = model.input_gradients(batch);
  for (std::int64_t d = 0; d < 5; ++d) {
    const auto place = [&](const Tensor&) { return batch.tokens[2] * 5 + d; };
    EXPECT_NEAR(gradients.view().at<double>({2, d}), slope_of_loss(model, batch, "embedding.weight", place), 1e-8);
  }
}

constexpr std::int64_t kBytes = 64 << 20;

TEST(MemoryUse, SeesWhatWasTouchedAndFreed) {
  const auto growth = peak_growth([] {
    const auto block = std::make_unique<char[]>(kBytes);
    volatile char* touched = block.get();
    for (std::int64_t i = 0; i < kBytes; i += 4096) touched[i] = 1;
  });
  if (!growth) GTEST_SKIP() << "/proc does not say";
  EXPECT_GT(*growth, kBytes / 10 * 9);
}

TEST(MemoryUse, CountsWhatIsKept) {
#ifdef QKV_SANITIZED
  GTEST_SKIP() << "another allocator";
#endif
  const std::int64_t before = allocated_bytes();
  const auto block = std::make_unique<char[]>(kBytes);
  EXPECT_NEAR(static_cast<double>(allocated_bytes() - before), kBytes, kBytes / 10);
}

TEST(Growth, FindsTheExponentOfAPower) {
  for (const double exponent : {-1.0, 0.0, 1.5}) {
    const ComparedGrowth growth = growth_of(
        {64, 128, 512, 1024}, [&](std::int64_t length) { return 3 * std::pow(static_cast<double>(length), exponent); });
    ASSERT_TRUE(growth.exponent);
    EXPECT_NEAR(growth.exponent->value, exponent, 1e-12);
    EXPECT_NEAR(growth.exponent->error, 0, 1e-12);
  }
  // The logarithms 0, 1, 2, 3 of the lengths and 0, 0, 0, 5 of the values: the line rises by 7.5 / 5 and leaves 1,
  // -0.5, -2 and 1.5, whose squares are 7.5 in sum: the error is sqrt(7.5 / 2 / 5).
  const auto growth = fitted_exponent({1, 10, 100, 1000}, {1, 1, 1, 1e5});
  ASSERT_TRUE(growth);
  EXPECT_NEAR(growth->value, 1.5, 1e-12);
  EXPECT_NEAR(growth->error, std::sqrt(0.75), 1e-12);
  EXPECT_FALSE(fitted_exponent({1, 10, 100, 1000}, {1, 0, 1, 1000}));
  EXPECT_FALSE(fitted_exponent({1, 10, 100}, {1, 10, 100}));
}

// A model that keeps 32 MiB from its first training on: no length is charged with them.
TEST(MemoryUse, IsNotOfWhatIsKeptOnce) {
#ifdef QKV_SANITIZED
  GTEST_SKIP() << "another allocator";
#endif
  struct Keeping : Measurable {
    std::int64_t parameters() const override { return 0; }
    SequenceGraph graph(std::int64_t) const override { return {}; }
    double operations_at_once(std::int64_t) const override { return 0; }
    double operations_in_turn(std::int64_t) const override { return 0; }
    std::int64_t measured_reach(std::int64_t, std::uint64_t) const override { return 0; }
    void train(std::int64_t sequences, std::int64_t length) override {
      if (kept.empty()) kept.assign(32 << 20, 1);
      std::vector<char> used(static_cast<std::size_t>(sequences * length * 4096), 1);
      volatile char last = used.back();
      static_cast<void>(last);
    }
    std::shared_ptr<void> answer(std::int64_t) const override { return {}; }
    std::vector<char> kept{};
  } model;
  for (const ComparedCost& cost : cost_of(model, {64, 128})) {
    if (cost.phase != "training" || !cost.memory) continue;
    for (const double bytes : cost.memory->values) EXPECT_NEAR(bytes, 4096, 1024) << cost.threads;  // 32 MiB: 65,536
  }
}

}  // namespace
}  // namespace qkv::comparison
