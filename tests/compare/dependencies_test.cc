// Steps, paths and reach counted in graphs, by hand and of the layers.
#include "compare/dependencies.h"

#include <gtest/gtest.h>

#include "compare/sequence_model.h"

namespace qkv::comparison {
namespace {

SequenceGraph graph_of(SequenceKind kind, std::int64_t length) {
  return SequenceModel({.kind = kind, .vocab = 3, .embedding = 8, .width = 4}, 1).graph(length);
}

TEST(Dependencies, OfAGraphByHand) {
  SequenceGraph sequence;
  DependencyGraph& graph = sequence.graph;
  const auto a = graph.add_input(), b = graph.add_input();
  const auto first = graph.add_step({a}), second = graph.add_step({first, b}), third = graph.add_step({second, a});
  sequence.inputs = {a, b};
  sequence.outputs = {first, third};
  EXPECT_EQ(graph.sequential_steps(), 3);
  EXPECT_EQ(graph.paths_from(a)[third], 1);
  EXPECT_EQ(graph.paths_from(b)[third], 2);
  EXPECT_EQ(graph.paths_from(b)[first], std::nullopt);
  EXPECT_EQ(longest_path(sequence), 2);
  EXPECT_EQ(reach(sequence), 1);
}

// A state follows the one before: 50 steps, and the first token is 50 steps from the last state.
TEST(Dependencies, ARecurrentLayerTakesAsManyStepsAsTokens) {
  for (const SequenceKind kind : {SequenceKind::rnn, SequenceKind::lstm, SequenceKind::gru}) {
    const SequenceGraph sequence = graph_of(kind, 50);
    EXPECT_EQ(sequence.graph.sequential_steps(), 50);
    EXPECT_EQ(longest_path(sequence), 50);
    EXPECT_EQ(reach(sequence), 49);
  }
}

// Four layers; windows of 3 at dilations 1, 2, 4, 8 see 2 * (1 + 2 + 4 + 8) tokens back.
TEST(Dependencies, ConvolutionsReachTheSumOfTheirWindows) {
  const SequenceGraph sequence = graph_of(SequenceKind::cnn, 50);
  EXPECT_EQ(sequence.graph.sequential_steps(), 4);
  EXPECT_EQ(longest_path(sequence), 4);
  EXPECT_EQ(reach(sequence), 30);
}

// Two layers of attention and feed-forward, whatever the length.
TEST(Dependencies, ATransformerReachesEverythingInFourSteps) {
  for (const std::int64_t length : {10, 50}) {
    const SequenceGraph sequence = graph_of(SequenceKind::transformer, length);
    EXPECT_EQ(sequence.graph.sequential_steps(), 4);
    EXPECT_EQ(longest_path(sequence), 4);
    EXPECT_EQ(reach(sequence), length - 1);
  }
}

}  // namespace
}  // namespace qkv::comparison
