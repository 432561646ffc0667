// Every option of a Marian together with every other: its gradients are the slopes of its loss, decoding step by step
// is the whole pass, and its folder opens again as the same model.
#include <gtest/gtest.h>

#include <cmath>

#include "io/files_for_test.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/layers/sequences.h"
#include "qkv/models/marian.h"
#include "qkv/random.h"

namespace qkv {
namespace {

std::vector<MarianConfig> all_configs() {
  std::vector<MarianConfig> all;
  for (const MarianKind kind : {MarianKind::marian, MarianKind::bart}) {
    for (const NormOrder order : {NormOrder::post, NormOrder::pre}) {
      for (const Normalization normalization : {Normalization::layer, Normalization::rms}) {
        for (const MarianPositions positions : {MarianPositions::of_kind, MarianPositions::rotary}) {
          for (const std::int64_t target_vocab : {0, 11}) {
            for (const Activation activation : {Activation::relu, Activation::gelu, Activation::silu}) {
              all.push_back({.kind = kind,
                             .vocab = 13,
                             .target_vocab = target_vocab,
                             .positions = 9,
                             .model_dim = 12,
                             .encoder_layers = 2,
                             .decoder_layers = 1,
                             .encoder_heads = 3,
                             .decoder_heads = 2,
                             .encoder_ff_dim = 10,
                             .decoder_ff_dim = 14,
                             .activation = activation,
                             .norm_order = order,
                             .normalization = normalization,
                             .position_kind = positions,
                             .end = 0,
                             .padding = 10,
                             .start = 10});
            }
          }
        }
      }
    }
  }
  return all;
}

std::string name_of(const MarianConfig& config) {
  std::string name = config.kind == MarianKind::bart ? "bart" : "marian";
  if (config.norm_order == NormOrder::pre) name += " pre";
  if (config.normalization == Normalization::rms) name += " rms";
  if (config.position_kind == MarianPositions::rotary) name += " rotary";
  if (config.target_vocab > 0) name += " two tables";
  return name + (config.activation == Activation::relu   ? " relu"
                 : config.activation == Activation::gelu ? " gelu"
                                                         : " silu");
}

PairBatch small_batch() {
  return {.source = {3, 9, 4, 0, 7, 0},
          .target = {5, 1, 8, 2, 0, 6, 0},
          .source_offsets = offsets_of(std::vector<std::int64_t>{4, 2}),
          .target_offsets = offsets_of(std::vector<std::int64_t>{5, 2})};
}

// w += step * direction for all weights, directions drawn by the name; returns the sum of gradient * direction.
double move(Marian& model, double step) {
  double slope = 0;
  std::uint64_t seed = 0;
  model.update([&](const std::string& name, Parameter& own) {
    Random random(++seed);
    for (std::int64_t i = 0; i < own.value.element_count(); ++i) {
      const double direction = random.normal();
      const bool is_padding = (name == "decoder.embed_tokens.weight" || name == "shared.weight") && i / 12 == 10;
      if (is_padding) continue;  // a row that has no gradient
      own.value.data<double>()[i] += step * direction;
      if (own.has_gradient()) slope += own.gradient.data<double>()[i] * direction;
    }
  });
  return slope;
}

TEST(MarianOptions, GradientsAreTheSlopesOfTheLoss) {
  for (const MarianConfig& config : all_configs()) {
    SCOPED_TRACE(name_of(config));
    if (config.activation == Activation::relu) continue;  // has a bend, which a step may cross; tests of layers have it
    Weights weights = initial_weights(7, Dtype::f64);
    Marian model(config, weights);
    move(model, 0.1);  // norms and biases that are not 1 and 0
    model.update([](const std::string&, Parameter& own) { own.want_gradient(); });
    const double loss = model.backward(small_batch(), {}).sum;
    EXPECT_NEAR(loss, model.loss(small_batch()).sum, 1e-9);
    constexpr double kStep = 1e-5;
    const double slope = move(model, kStep);
    const double above = model.loss(small_batch()).sum;
    move(model, -2 * kStep);
    const double below = model.loss(small_batch()).sum;
    // The error of a difference quotient is of the order of the step squared.
    EXPECT_NEAR((above - below) / (2 * kStep), slope, 1e-5 * std::max(1.0, std::abs(slope)));
  }
}

TEST(MarianOptions, FoldersOpenAgainAsTheSame) {
  const test::TemporaryFolder folder;
  for (const MarianConfig& config : all_configs()) {
    SCOPED_TRACE(name_of(config));
    const Marian model = Marian::initial(config, 3);
    model.save(folder / "");
    EXPECT_TRUE(Marian::is_in(folder / ""));
    const Marian again = Marian::load(folder / "");
    EXPECT_EQ(again.config(), config);
    test::expect_equal(again.logits(small_batch()), model.logits(small_batch()));
    const bool own = test::slurp(folder / "config.json").find("\"model_type\": \"qkv\"") != std::string::npos;
    EXPECT_EQ(own, Marian::class_of(config).empty());
  }
}

TEST(MarianOptions, StepsGiveWhatTheWholePassGives) {
  const PairBatch batch = small_batch();
  for (const MarianConfig& config : all_configs()) {
    SCOPED_TRACE(name_of(config));
    const Marian model = Marian::initial(config, 3);
    const Tensor logits = model.logits(batch);
    ASSERT_EQ(logits.shape(), (Dims{7, config.output_vocab()}));
    const auto targets = model.targets(std::span(batch.source).first(4), offsets_of(std::vector<std::int64_t>{4}));
    EXPECT_EQ(targets->vocab(), config.output_vocab());
    std::int32_t token = config.start;
    for (std::int64_t i = 0; i < 5; ++i) {
      const std::vector<std::int64_t> parents{0};
      const std::vector<std::int32_t> tokens{token};
      const TensorView row = targets->step(parents, tokens);
      for (std::int64_t j = 0; j < config.output_vocab(); ++j) {
        EXPECT_NEAR(row.at<float>({0, j}), logits.view().at<float>({i, j}), 1e-5);
      }
      token = batch.target[static_cast<std::size_t>(i)];
    }
  }
}

TEST(MarianOptions, ClassesOfTransformersAreNamed) {
  const MarianConfig marian{}, bart{.kind = MarianKind::bart};
  const auto with = [](MarianConfig config, auto change) {
    change(config);
    return Marian::class_of(config);
  };
  const auto pre = [](MarianConfig& config) { config.norm_order = NormOrder::pre; };
  const auto rms = [](MarianConfig& config) { config.normalization = Normalization::rms; };
  const auto rotary = [](MarianConfig& config) { config.position_kind = MarianPositions::rotary; };
  const auto two = [](MarianConfig& config) { config.target_vocab = 5; };
  EXPECT_EQ(Marian::class_of(marian), "MarianMTModel");
  EXPECT_EQ(with(marian, two), "MarianMTModel");
  EXPECT_EQ(Marian::class_of(bart), "BartForConditionalGeneration");
  EXPECT_EQ(with(bart, pre), "MBartForConditionalGeneration");
  for (const std::string& name : {with(marian, pre), with(marian, rms), with(marian, rotary), with(bart, two),
                                  with(bart, rms), with(bart, rotary)}) {
    EXPECT_EQ(name, "");
  }
}

}  // namespace
}  // namespace qkv
