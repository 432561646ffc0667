// A model sees as far as its layers say, and answers with what it keeps.
#include "compare/measurable.h"

#include <gtest/gtest.h>

#include "compare/pair_tasks.h"

namespace qkv::comparison {
namespace {

TEST(Measurable, ReachOfReadersIsWhatIsCountedFromTheLayers) {
  for (const SequenceKind kind :
       {SequenceKind::rnn, SequenceKind::lstm, SequenceKind::gru, SequenceKind::cnn, SequenceKind::transformer}) {
    for (const std::int64_t length : {1, 2, 40}) {
      SequenceModel model({.kind = kind, .vocab = 9, .embedding = 16, .width = 24}, 1, Dtype::f64);
      EXPECT_EQ(measurable(model)->measured_reach(length, 2), reach(model.graph(length)));
    }
  }
}

TEST(Measurable, ReachOfTranslatorsIsTheWholeSource) {
  for (const TranslatorKind kind :
       {TranslatorKind::fixed, TranslatorKind::additive, TranslatorKind::dot, TranslatorKind::transformer}) {
    TranslatorModel model({.kind = kind, .tokens = reversal_tokens(20), .model_dim = 16, .ff_dim = 8}, 1);
    EXPECT_EQ(measurable(model)->measured_reach(8, 2), 7);
    EXPECT_EQ(reach(model.graph(8)), 7);
  }
}

TEST(Measurable, TrainsAndAnswers) {
  SequenceModel reader({.kind = SequenceKind::gru, .vocab = 9, .embedding = 4, .width = 5}, 1);
  TranslatorModel translator({.kind = TranslatorKind::dot, .tokens = reversal_tokens(20), .model_dim = 8}, 1);
  const auto gradients_are_there = [](Trainable& model, Measurable& measured) {
    model.update([](const std::string&, Parameter& p) { p.want_gradient(); });
    measured.train(2, 5);
    double sum = 0;
    model.visit([&](const std::string&, const Parameter& p) {
      for (std::int64_t i = 0; i < p.gradient.element_count(); ++i) sum += std::abs(p.gradient.data<float>()[i]);
    });
    EXPECT_GT(sum, 0);
    EXPECT_NE(measured.answer(6), nullptr);
    EXPECT_EQ(measured.parameters(), parameter_count(model));
  };
  gradients_are_there(reader, *measurable(reader));
  gradients_are_there(translator, *measurable(translator));
}

}  // namespace
}  // namespace qkv::comparison
