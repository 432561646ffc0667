// What is left of a gradient over 128 steps, at the start of training.
#include <gtest/gtest.h>

#include "compare/catalog.h"
#include "compare/measurable.h"
#include "compare/sequence_tasks.h"

namespace qkv::comparison {
namespace {

SequenceModel initial(SequenceKind kind, std::uint64_t seed) {
  return {sized(kind, vocab_of(SequenceTask::recall), catalog_task("recall").parameters), seed};
}

// Over 128 steps by that over 1, mean of three seeds.
double ratio(SequenceKind kind) {
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const auto norms = input_gradients(initial(kind, seed), seed);
    sum += norms.at(128) / norms.at(1) / 3;
  }
  return sum;
}

TEST(InputGradients, VanishInARecurrentNetworkAndNotInATransformer) {
  const double rnn = ratio(SequenceKind::rnn);
  EXPECT_LT(rnn, 1e-3);
  EXPECT_GT(rnn, 0);
  EXPECT_GT(ratio(SequenceKind::lstm), rnn);
  EXPECT_GT(ratio(SequenceKind::lstm_open), ratio(SequenceKind::lstm));
  EXPECT_GT(ratio(SequenceKind::transformer), 0.1);
}

// 30 tokens back the convolutions end.
TEST(InputGradients, AreZeroWhereAModelDoesNotReach) {
  for (const auto& [distance, norm] : input_gradients(initial(SequenceKind::cnn, 1), 1)) {
    EXPECT_EQ(norm > 0, distance <= 30) << distance;
  }
}

// Beside the loss itself, moved by 1e-6 along each number of the embedding: that of the one symbol of an example, which
// no other token shares.
TEST(InputGradients, AreThoseOfTheLoss) {
  SequenceModel model({.kind = SequenceKind::gru, .vocab = vocab_of(SequenceTask::recall), .embedding = 5, .width = 7},
                      3, Dtype::f64);
  Random random(4);
  const std::vector<SequenceExample> one{draw_recall(3, 2, random)};
  const SequenceBatch batch = side_by_side(one);
  const Tensor gradients = model.input_gradients(batch);
  const std::int32_t symbol = batch.tokens[2];
  for (std::int64_t d = 0; d < 5; ++d) {
    const auto loss_at = [&](double moved) {
      model.update([&](const std::string& name, Parameter& p) {
        if (name == "embedding.weight") p.value.data<double>()[symbol * 5 + d] += moved;
      });
      return model.loss(batch).sum;
    };
    const double above = loss_at(1e-6), below = loss_at(-2e-6);
    loss_at(1e-6);
    EXPECT_NEAR(gradients.view().at<double>({2, d}), (above - below) / 2e-6, 1e-8);
  }
}

}  // namespace
}  // namespace qkv::comparison
