// What is counted of translators, by hand.
#include "compare/translator_model.h"

#include <gtest/gtest.h>

#include "compare/pair_tasks.h"

namespace qkv::comparison {
namespace {

TranslatorModel small(TranslatorKind kind) {
  return {{.kind = kind, .tokens = reversal_tokens(2000), .model_dim = 8, .ff_dim = 6}, 1};
}

// 10 source tokens, then 10 target tokens. Additive attention comes between two steps; that of dot products follows the
// last one. The first source token is as many steps from the last output as there are states between them, or one
// state, attention and what reads it.
TEST(TranslatorModel, StepsAndPathsAreThoseOfTheLayers) {
  const auto steps = [](TranslatorKind kind) { return small(kind).graph(10).graph.sequential_steps(); };
  const auto path = [](TranslatorKind kind) { return longest_path(small(kind).graph(10)); };
  EXPECT_EQ(steps(TranslatorKind::fixed), 20);
  EXPECT_EQ(path(TranslatorKind::fixed), 20);
  EXPECT_EQ(steps(TranslatorKind::additive), 10 + 2 * 10 + 1);
  EXPECT_EQ(path(TranslatorKind::additive), 3);
  EXPECT_EQ(steps(TranslatorKind::dot), 21);
  EXPECT_EQ(path(TranslatorKind::dot), 2);
  // Two steps of each layer of the source, three of the target, whose first attention need not wait for the source. The
  // shortest way enters the target's side in its last layer.
  EXPECT_EQ(steps(TranslatorKind::transformer), 4 + 5);
  EXPECT_EQ(path(TranslatorKind::transformer), 4 + 2);
}

// Twice each number of a matrix that multiplies a token, and of the table of 12 symbols that projects.
TEST(TranslatorModel, OperationsAreThoseOfTheLayers) {
  const double recurrent = 2.0 * (2 * 3 * 2 * 8 * 8 + 12 * 8), readout = 2.0 * 8 * 16;
  EXPECT_EQ(small(TranslatorKind::fixed).operations_at_once(16), recurrent);
  // Beside the products with 100 keys and values.
  EXPECT_EQ(small(TranslatorKind::dot).operations_in_turn(100), recurrent + readout + 2 * 2 * 8 * 100);
  for (const TranslatorKind kind :
       {TranslatorKind::fixed, TranslatorKind::additive, TranslatorKind::dot, TranslatorKind::transformer}) {
    const TranslatorModel model = small(kind);
    const bool grows = kind != TranslatorKind::fixed;
    EXPECT_EQ(model.operations_at_once(1024) > model.operations_at_once(64), grows);
    EXPECT_EQ(model.operations_in_turn(1024) > model.operations_in_turn(64), grows);
  }
}

}  // namespace
}  // namespace qkv::comparison
