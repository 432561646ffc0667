// Models of all kinds: gradients, reading token by token, sizes, and what is counted of their layers, by hand.
#include "lab/compare/catalog.h"
#include "lab/compare/pair_tasks.h"
#include "lab/compare/perturbed.h"
#include "lab/compare/sequence_tasks.h"
#include "lab/models/dependencies.h"
#include "lab/models/translator_model.h"

namespace qkv::comparison {
namespace {

constexpr SequenceKind kKinds[] = {SequenceKind::rnn, SequenceKind::lstm, SequenceKind::lstm_open,
                                   SequenceKind::gru, SequenceKind::cnn,  SequenceKind::transformer};
constexpr TranslatorKind kTranslators[] = {TranslatorKind::fixed, TranslatorKind::additive, TranslatorKind::dot,
                                           TranslatorKind::transformer};

SequenceModel small(SequenceKind kind, Dtype dtype = Dtype::f64) {
  return SequenceModel({.kind = kind, .vocab = vocab_of(SequenceTask::copy), .embedding = 8, .width = 6}, 5, dtype);
}

TranslatorModel small(TranslatorKind kind) {
  return {{.kind = kind, .tokens = reversal_tokens(2000), .model_dim = 8, .ff_dim = 6}, 1};
}

SequenceBatch batch() { return draw_batch(SequenceTask::copy, std::vector<std::int64_t>{3, 1, 5}, 4); }

// One of every gradient beside the difference of two losses, 1e-6 of a parameter apart: the error of the difference is
// about 1e-16 / 1e-6 of a loss of some 20.
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
    for (const auto& [name, gradient] : gradients) {
      const double slope = slope_of_loss(model, batch(), name, [](const Tensor& t) { return t.element_count() / 2; });
      EXPECT_NEAR(gradient, slope, 1e-7 * (1 + std::abs(gradient))) << name;
    }
  }
}

TEST(SequenceModel, ReadsTokenByTokenAsItReadsAtOnce) {
  SequenceBatch tokens = draw_batch(SequenceTask::recall, std::vector<std::int64_t>{40}, 3);
  for (std::int32_t& token : tokens.tokens) token %= static_cast<std::int32_t>(vocab_of(SequenceTask::copy));
  for (const SequenceKind kind : kKinds) {
    const SequenceModel model = small(kind);
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

// Models of one task have the same size, but for 3 %.
TEST(ModelSize, ModelsOfATaskAreOfOneSize) {
  const EncoderDecoderTokens phrases = read_phrase_book(QKV_SOURCE_DIR "/data/phrases.es.tsv").tokens;
  const auto count = [&](const CatalogTask& task, const std::string& model) {
    if (task.name == "reversal" || task.name == "phrases") {
      const EncoderDecoderTokens tokens = task.name == "phrases" ? phrases : reversal_tokens(20);
      return parameter_count(TranslatorModel(sized(translator_kind(model), tokens, task.parameters), 1));
    }
    return parameter_count(
        SequenceModel(sized(sequence_kind(model), vocab_of(sequence_task(task.name)), task.parameters), 1));
  };
  for (const char* name : {"recall", "copy", "key-value", "reversal", "phrases"}) {
    const CatalogTask& task = catalog_task(name);
    std::vector<double> counts;
    for (const std::string& model : task.models) counts.push_back(static_cast<double>(count(task, model)));
    const auto [least, most] = std::ranges::minmax(counts);
    const auto wanted = static_cast<double>(task.parameters);
    EXPECT_LE(most, 1.03 * least) << name;
    EXPECT_NEAR(least, wanted, 0.2 * wanted) << name;
  }
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

TEST(Dependencies, StepsPathsAndReachAreThoseOfTheLayers) {
  const struct {
    SequenceGraph graph;
    std::int64_t steps, path, reach;
  } rows[] = {
      // A state follows the one before: 50 steps, and the first token is 50 steps from the last state.
      {small(SequenceKind::rnn).graph(50), 50, 50, 49},
      {small(SequenceKind::lstm).graph(50), 50, 50, 49},
      {small(SequenceKind::gru).graph(50), 50, 50, 49},
      // Four layers; windows of 3 at dilations 1, 2, 4, 8 see 2 * (1 + 2 + 4 + 8) tokens back.
      {small(SequenceKind::cnn).graph(50), 4, 4, 30},
      // Two layers of attention and feed-forward, whatever the length.
      {small(SequenceKind::transformer).graph(10), 4, 4, 9},
      {small(SequenceKind::transformer).graph(50), 4, 4, 49},
      // 10 source tokens, then 10 target tokens. Additive attention comes between two steps; that of dot products
      // follows the last one. The first source token is as many steps from the last output as there are states between
      // them, or one state, attention and what reads it.
      {small(TranslatorKind::fixed).graph(10), 20, 20, 9},
      {small(TranslatorKind::additive).graph(10), 10 + 2 * 10 + 1, 3, 9},
      {small(TranslatorKind::dot).graph(10), 21, 2, 9},
      // Two steps of each layer of the source, three of the target, whose first attention need not wait for the source.
      // The shortest way enters the target's side in its last layer.
      {small(TranslatorKind::transformer).graph(10), 4 + 5, 4 + 2, 9},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(row.graph.graph.sequential_steps(), row.steps) << "row " << &row - rows;
    EXPECT_EQ(longest_path(row.graph), row.path) << "row " << &row - rows;
    EXPECT_EQ(reach(row.graph), row.reach) << "row " << &row - rows;
  }
}

// Twice each number of a matrix that multiplies a token: of the layers, and of the projection to 12 symbols.
TEST(Dependencies, OperationsAreThoseOfTheLayers) {
  const double recurrent = 2.0 * (2 * 3 * 2 * 8 * 8 + 12 * 8), readout = 2.0 * 8 * 16;
  const double transformer = 2 * (2 * (4 * 8 * 8 + 2 * 6 * 8) + 12 * 8);
  const std::pair<double, double> rows[] = {
      {small(SequenceKind::rnn).operations_at_once(16), 2 * (6 * 8 + 6 * 6 + 12 * 6)},
      {small(SequenceKind::lstm).operations_at_once(16), 2 * (4 * (6 * 8 + 6 * 6) + 12 * 6)},
      {small(SequenceKind::gru).operations_at_once(16), 2 * (3 * (6 * 8 + 6 * 6) + 12 * 6)},
      {small(SequenceKind::cnn).operations_at_once(16), 2 * (3 * 6 * 8 + 3 * 3 * 6 * 6 + 12 * 6)},
      // Besides, a query has a product with each key and each value of its 8 numbers, in both layers.
      {small(SequenceKind::transformer).operations_in_turn(99), transformer + 2 * 2 * 2 * 8 * 100},
      // At once the n-th of 15 sees n keys: 8 on average. No CPU's tiles are in it.
      {small(SequenceKind::transformer).operations_at_once(15), transformer + 2 * 2 * 2 * 8 * 8},
      {small(TranslatorKind::fixed).operations_at_once(16), recurrent},
      // Beside the products with 100 keys and values.
      {small(TranslatorKind::dot).operations_in_turn(100), recurrent + readout + 2 * 2 * 8 * 100},
      {small(TranslatorKind::dot).operations_at_once(15), recurrent + readout + 2 * 2 * 8 * 15},
      // A number of the key is added to one of the query and, after tanh, multiplied by one of v and added: 3; of 15
      // keys more than of 5.
      {small(TranslatorKind::additive).operations_at_once(15) - small(TranslatorKind::additive).operations_at_once(5),
       (3 + 2) * 8 * 10},
      {small(TranslatorKind::additive).operations_in_turn(15) - small(TranslatorKind::additive).operations_in_turn(5),
       (3 + 2) * 8 * 10},
      // In two layers source to source, target to source, and target to those before it: 15 + 15 + 8 keys, 5 + 5 + 3;
      // or in turn 15 + 15 + 16, 5 + 5 + 6.
      {small(TranslatorKind::transformer).operations_at_once(15) -
           small(TranslatorKind::transformer).operations_at_once(5),
       2 * (2 + 2) * 8 * (38 - 13)},
      {small(TranslatorKind::transformer).operations_in_turn(15) -
           small(TranslatorKind::transformer).operations_in_turn(5),
       2 * (2 + 2) * 8 * (46 - 16)},
  };
  for (const auto& [counted, expected] : rows) EXPECT_EQ(counted, expected);
  const auto expect_growth = [](const auto& model, bool grows) {
    EXPECT_EQ(model.operations_at_once(1024) > model.operations_at_once(64), grows);
    EXPECT_EQ(model.operations_in_turn(1024) > model.operations_in_turn(64), grows);
  };
  for (const SequenceKind kind : kKinds) expect_growth(small(kind), kind == SequenceKind::transformer);
  for (const TranslatorKind kind : kTranslators) expect_growth(small(kind), kind != TranslatorKind::fixed);
}

}  // namespace
}  // namespace qkv::comparison
