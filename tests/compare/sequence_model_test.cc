// Sequence models of all kinds: gradients, reading token by token, sizes and counted operations.
#include "compare/sequence_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compare/sequence_tasks.h"

namespace qkv::comparison {
namespace {

constexpr SequenceKind kKinds[] = {SequenceKind::rnn, SequenceKind::lstm, SequenceKind::lstm_open,
                                   SequenceKind::gru, SequenceKind::cnn,  SequenceKind::transformer};

SequenceModel small(SequenceKind kind, Dtype dtype = Dtype::f64) {
  return SequenceModel({.kind = kind, .vocab = vocab_of(SequenceTask::copy), .embedding = 8, .width = 6}, 5, dtype);
}

SequenceBatch batch() { return draw_batch(SequenceTask::copy, std::vector<std::int64_t>{3, 1, 5}, 4); }

// Every gradient beside the difference of two losses, 1e-6 of a parameter apart: the error of the difference is about
// 1e-16 / 1e-6 of a loss of some 20.
TEST(SequenceModel, GradientsAreThoseOfTheLoss) {
  for (const SequenceKind kind : kKinds) {
    SequenceModel model = small(kind);
    model.update([](const std::string&, Parameter& p) { p.want_gradient(); });
    const LossSum sum = model.backward(batch(), 0);
    EXPECT_EQ(sum.count, 9);
    EXPECT_NEAR(sum.sum, model.loss(batch()).sum, 1e-9);
    std::vector<std::pair<std::string, double>> gradients;
    model.visit([&](const std::string& name, const Parameter& p) {
      gradients.emplace_back(name, p.gradient.data<double>()[p.value.element_count() / 2]);
    });
    for (const auto& [wanted, gradient] : gradients) {
      const auto loss_at = [&, &own = wanted](double moved) {
        model.update([&](const std::string& name, Parameter& p) {
          if (name == own) p.value.data<double>()[p.value.element_count() / 2] += moved;
        });
        return model.loss(batch()).sum;
      };
      const double step = 1e-6, above = loss_at(step), below = loss_at(-2 * step);
      loss_at(step);
      EXPECT_NEAR(gradient, (above - below) / (2 * step), 1e-7 * (1 + std::abs(gradient))) << wanted;
    }
  }
}

TEST(SequenceModel, ReadsTokenByTokenAsItReadsAtOnce) {
  for (const SequenceKind kind : kKinds) {
    const SequenceModel model = small(kind);
    const SequenceBatch one = draw_batch(SequenceTask::recall, std::vector<std::int64_t>{40}, 3);
    SequenceBatch tokens = one;
    for (std::int32_t& token : tokens.tokens) token %= static_cast<std::int32_t>(model.config().vocab);
    const Tensor logits = model.logits(tokens);
    SequenceModel::Reader reader(model);
    for (std::int64_t t = 0; t < std::ssize(tokens.tokens); ++t) {
      const Tensor next = reader.read(tokens.tokens[static_cast<std::size_t>(t)]);
      for (std::int64_t c = 0; c < logits.size(1); ++c) {
        EXPECT_NEAR(next.data<double>()[c], logits.view().at<double>({t, c}), 1e-12);
      }
    }
  }
}

TEST(SequenceModel, TheSameWeightsInAnotherTypeGiveTheSameLoss) {
  for (const SequenceKind kind : kKinds) {
    const SequenceModel model = small(kind, Dtype::f32);
    EXPECT_NEAR(model.loss(batch()).sum, SequenceModel(model, Dtype::f64).loss(batch()).sum, 1e-4);
  }
}

// Twice each number of a matrix that multiplies a token: of the layers, and of the projection to 12 symbols.
TEST(SequenceModel, OperationsAreThoseOfTheLayers) {
  const auto at_once = [](SequenceKind kind) { return small(kind).operations_at_once(16); };
  EXPECT_EQ(at_once(SequenceKind::rnn), 2 * (6 * 8 + 6 * 6 + 12 * 6));
  EXPECT_EQ(at_once(SequenceKind::lstm), 2 * (4 * (6 * 8 + 6 * 6) + 12 * 6));
  EXPECT_EQ(at_once(SequenceKind::gru), 2 * (3 * (6 * 8 + 6 * 6) + 12 * 6));
  EXPECT_EQ(at_once(SequenceKind::cnn), 2 * (3 * 6 * 8 + 3 * 3 * 6 * 6 + 12 * 6));
  // Besides, a query has a product with each key and each value of its 8 numbers, in both layers.
  const SequenceModel transformer = small(SequenceKind::transformer);
  const double weights = 2 * (2 * (4 * 8 * 8 + 2 * 6 * 8) + 12 * 8);
  EXPECT_EQ(transformer.operations_in_turn(99), weights + 2 * 2 * 2 * 8 * 100);
  for (const SequenceKind kind : kKinds) {
    const SequenceModel model = small(kind);
    const bool grows = kind == SequenceKind::transformer;
    EXPECT_EQ(model.operations_at_once(1024) > model.operations_at_once(64), grows);
    EXPECT_EQ(model.operations_in_turn(1024) > model.operations_in_turn(64), grows);
  }
}

}  // namespace
}  // namespace qkv::comparison
