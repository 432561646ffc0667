// Masks of each layer, and what an observer sees of the gradients: what explain asks of a model besides its run. Marian
// and Bert against plain loops: tests/explain/token_measures_test.cc.
#include <array>
#include <cmath>

#include "jacobian.h"
#include "models/models_for_test.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/models/bert.h"
#include "qkv/models/marian.h"
#include "qkv/models/seq2seq.h"

namespace qkv {
namespace {

struct SeenByName : Observer {
  void receive(std::string_view name, const TensorView& value) override {
    all[std::string(name)] = convert(value, Dtype::f64);
  }
  std::map<std::string, Tensor> all{};
};

constexpr Seq2SeqKind kAttending[] = {Seq2SeqKind::additive, Seq2SeqKind::dot, Seq2SeqKind::bilinear};

Seq2Seq attending(Seq2SeqKind kind) {
  Weights weights = initial_weights(3, Dtype::f64);
  return Seq2Seq({.kind = kind, .vocab = 11, .positions = 9, .model_dim = 6, .padding = 10, .start = 10}, weights);
}

PairBatch one_pair() { return test::pairs_of({{{3, 9, 4, 0}, {5, 1, 8, 0}}}); }

// Times a factor: the columns of the matrices that read a context behind a state or an embedding.
void scale_contexts(Seq2Seq& model, double factor) {
  const std::int64_t dim = model.config().model_dim;
  model.update([&](const std::string& name, Parameter& own) {
    const bool reads_contexts = name == "readout.weight" || name == "decoder.rnn.weight_ih_l0";
    if (!reads_contexts || own.value.size(1) != 2 * dim) return;
    for (std::int64_t i = 0; i < own.value.element_count(); ++i) {
      if (i % (2 * dim) >= dim) own.value.data<double>()[i] *= factor;
    }
  });
}

double log_probability(const Seq2Seq& model, const PairBatch& batch, std::int64_t token) {
  const Tensor logits = model.logits(batch);
  const double* row = logits.data<double>() + token * logits.size(1);
  double sum = 0;
  for (std::int64_t c = 0; c < logits.size(1); ++c) sum += std::exp(row[c]);
  return row[batch.target[static_cast<std::size_t>(token)]] - std::log(sum);
}

// Whatever reads a context reads it times 1 + e: the slope at e = 0 is the sum of gradient * context over all steps.
TEST(HeadsGradient, OfARecurrentDecoderIsTheSlopeOfItsContexts) {
  constexpr double kStep = 1e-5;
  for (const Seq2SeqKind kind : kAttending) {
    for (const std::int64_t token : {0, 3}) {
      Seq2Seq model = attending(kind);
      SeenByName forward, backward;
      model.logits(one_pair(), {}, &forward);
      model.backward(one_pair(), {.only = token, .observer = &backward});
      const Tensor& context = forward.all.at("decoder.attention.0.heads");
      const Tensor& gradient = backward.all.at("decoder.attention.0.heads_gradient");
      ASSERT_EQ(gradient.shape(), context.shape());
      const double sum = -testing::dot(gradient, context);
      scale_contexts(model, 1 + kStep);
      const double above = log_probability(model, one_pair(), token);
      scale_contexts(model, (1 - kStep) / (1 + kStep));
      const double below = log_probability(model, one_pair(), token);
      EXPECT_NEAR(sum, (above - below) / (2 * kStep), 1e-8) << static_cast<int>(kind) << " " << token;
      EXPECT_GT(std::abs(sum), 1e-5);
    }
  }
}

// Queries that do not depend on contexts see the other keys with weights that grow by one factor.
TEST(LayerMasks, OfARecurrentDecoderHideKeys) {
  Tensor visible = Tensor::zeros({1, 1, 4}, Dtype::u8);
  for (const std::int64_t j : {0, 1, 3}) visible.data<std::uint8_t>()[j] = 1;
  const Mask mask = Mask::boolean(visible);
  for (const Seq2SeqKind kind : kAttending) {
    const Seq2Seq model = attending(kind);
    SeenByName whole, hidden;
    model.logits(one_pair(), {}, &whole);
    const Tensor logits = model.logits(one_pair(), {.masks = {.memory = std::span(&mask, 1)}}, &hidden);
    const Tensor& before = whole.all.at("decoder.attention.0.weights");
    const Tensor& after = hidden.all.at("decoder.attention.0.weights");
    for (std::int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(after.view().at<double>({i, 0, 2}), 0);
      if (kind == Seq2SeqKind::additive && i > 0) continue;
      for (const std::int64_t j : {0, 1, 3}) {
        const double share = before.view().at<double>({i, 0, j}) / (1 - before.view().at<double>({i, 0, 2}));
        EXPECT_NEAR(after.view().at<double>({i, 0, j}), share, 1e-12);
      }
    }
    EXPECT_GT(testing::difference(logits, model.logits(one_pair())), 1e-6);
    const EncoderDecoderOptions options{.masks = {.memory = std::span(&mask, 1)}};
    EXPECT_THROW(model.targets(one_pair().source, one_pair().source_offsets, options), std::invalid_argument);
    EXPECT_THROW(model.logits(one_pair(), {.masks = {.encoder = std::span(&mask, 1)}}), std::invalid_argument);
  }
}

TEST(LayerMasks, AreOneForEachLayerAndNotOfGenerating) {
  const Bert bert = Bert::load(test::golden_path("bert/tiny"));  // two layers
  const TokenBatch tokens{.ids = {3, 4}, .types = {0, 0}, .offsets = test::offsets_for({2})};
  const std::array<Mask, 3> masks;
  const auto with_masks = [&](std::size_t count) {
    return bert.forward(tokens, {.masks = std::span(masks).first(count)});
  };
  EXPECT_TRUE(testing::same_bits(with_masks(2), bert.forward(tokens)));
  for (const std::size_t count : {1, 3}) {
    EXPECT_EQ(test::message_of<std::invalid_argument>([&] { with_masks(count); }),
              "transformer_stack: 2 layers have " + std::to_string(count) + " masks; give one for each, or none");
  }
  const Marian marian = Marian::load(test::golden_path("marian/tiny"));
  const std::vector<std::int32_t> ids{0};
  EXPECT_EQ(test::message_of<std::invalid_argument>([&] {
              marian.targets(ids, test::offsets_for({1}), {.masks = {.decoder = std::span(masks).first(1)}});
            }),
            "marian: targets() takes no masks; logits() does");
}

// What is not wanted is not sent, and changes nothing.
TEST(Observers, AreNotSentWhatTheyDoNotWant) {
  struct Modest : SeenByName {
    bool wants(std::string_view name) const override { return !name.ends_with("weights") && name != "layers.0.logits"; }
  } modest;
  const Bert model = Bert::load(test::golden_path("bert/tiny"));
  const TokenBatch tokens{.ids = {3, 4}, .types = {0, 0}, .offsets = test::offsets_for({2})};
  EXPECT_TRUE(testing::same_bits(model.forward(tokens, {}, &modest), model.forward(tokens)));
  for (const char* name : {"layers.0.weights", "layers.0.logits"}) EXPECT_FALSE(modest.all.contains(name)) << name;
  for (const char* name : {"layers.1.logits", "layers.1.heads"}) EXPECT_TRUE(modest.all.contains(name)) << name;
}

}  // namespace
}  // namespace qkv
