// Transformers and recurrent encoder-decoders: every option together with every other, by the slopes of the loss,
// decoding step by step and the folder; the recurrent ones beside torch, their masks and what an observer sees of the
// gradients.
#include "qkv/models/encoder_decoder.h"

#include "jacobian.h"
#include "lab/models/recurrent_encoder_decoder.h"
#include "lab/models/recurrent_family.h"
#include "lab/models/recurrent_folder.h"
#include "models/models_for_test.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/models/transformer_encoder_decoder.h"
#include "qkv/random.h"

namespace qkv::test {
namespace {

[[maybe_unused]] const bool kWithRecurrent = (add_recurrent_family(), true);

using testing::same_bits;

constexpr std::int32_t kPaddingToken = 10;

// Config `i` of all.
void set_options(int i, TransformerEncoderDecoderConfig& config) {
  constexpr Activation kActivations[] = {Activation::relu, Activation::gelu, Activation::silu};
  const auto takes = [&](int option) { return i / option % 2 == 1; };
  config = {.kind = takes(1) ? TransformerEncoderDecoderKind::bart : TransformerEncoderDecoderKind::marian,
            .vocab = 13,
            .target_vocab = takes(2) ? 11 : 0,
            .positions = 9,
            .model_dim = 12,
            .encoder_layers = 2,
            .decoder_layers = 1,
            .encoder_heads = 3,
            .decoder_heads = 2,
            .encoder_ff_dim = 10,
            .decoder_ff_dim = 14,
            .activation = kActivations[i / 32],
            .norm_order = takes(4) ? NormOrder::pre : NormOrder::post,
            .normalization = takes(8) ? Normalization::rms : Normalization::layer,
            .position_kind = takes(16) ? TransformerPositions::rotary : TransformerPositions::of_kind,
            .padding = kPaddingToken,
            .start = kPaddingToken};
}

void set_options(int i, RecurrentEncoderDecoderConfig& config) {
  const bool two_tables = i / 64 == 1;
  config = {.kind = recurrent_attention_kinds()[static_cast<std::size_t>(i % 4)].second,
            .cell = recurrent_cells()[static_cast<std::size_t>(i / 4 % 4)].second,
            .vocab = two_tables ? 13 : 11,
            .target_vocab = two_tables ? 11 : 0,
            .positions = 9,
            .model_dim = 6,
            .layers = 1 + i / 16 % 2,
            .directions = 1 + i / 32 % 2,
            .padding = kPaddingToken,
            .start = kPaddingToken};
}

// A bend, which a step may cross.
bool has_bend(const TransformerEncoderDecoderConfig& config) { return config.activation == Activation::relu; }
bool has_bend(const RecurrentEncoderDecoderConfig& config) { return config.cell == RecurrentCell::rnn_relu; }

// Of decoding beside the whole pass. Recurrent decoders have the same bits, but of dot products: single queries have a
// kernel of their own, which adds in another order.
double step_tolerance(const TransformerEncoderDecoderConfig&) { return 1e-5; }
double step_tolerance(const RecurrentEncoderDecoderConfig& config) {
  return config.kind == RecurrentAttentionKind::dot ? 2e-6 : 0;
}

template <class OneModel>
class MarianAndSeq2Seq : public ::testing::Test {
 protected:
  using Config = std::conditional_t<std::is_same_v<OneModel, TransformerEncoderDecoder>,
                                    TransformerEncoderDecoderConfig, RecurrentEncoderDecoderConfig>;

  // Of all configs, or every seventh: any two choices come together in one of those, too.
  template <class Check>
  void for_each_config(int step, const Check& check) {
    for (int i = 0; i < (std::is_same_v<OneModel, TransformerEncoderDecoder> ? 96 : 128); i += step) {
      SCOPED_TRACE(fmt::format("config {} of set_options()", i));
      Config config;
      set_options(i, config);
      check(config);
    }
  }

  const PairBatch pairs_ = pairs_of({{{3, 9, 4, 0}, {5, 1, 8, 2, 0}}, {{7, 0}, {6, 0}}});
};

using BothModels = ::testing::Types<TransformerEncoderDecoder, RecurrentEncoderDecoder>;
TYPED_TEST_SUITE(MarianAndSeq2Seq, BothModels);

// w += step * direction for all weights, directions drawn by the order; returns the sum of gradient * direction.
double move(EncoderDecoder& model, double step) {
  double slope = 0;
  std::uint64_t seed = 0;
  model.update([&](const std::string& name, Parameter& own) {
    Random random(++seed);
    const bool is_table = name == "decoder.embed_tokens.weight" || name == "shared.weight";
    for (std::int64_t i = 0; i < own.value.element_count(); ++i) {
      const double direction = random.normal();
      if (is_table && i / own.value.size(1) == kPaddingToken) continue;  // a row that has no gradient
      own.value.data<double>()[i] += step * direction;
      if (own.has_gradient()) slope += own.gradient.data<double>()[i] * direction;
    }
  });
  return slope;
}

TYPED_TEST(MarianAndSeq2Seq, GradientsAreTheSlopesOfTheLoss) {
  const PairBatch batch = pairs_of({{{3}, {0}}, {{3, 9, 4, 0}, {5, 1, 8, 2, 0}}, {{7, 7}, {6, 0}}});
  for (const double dropout : {0.0, 0.3}) {
    this->for_each_config(dropout > 0 ? 1 : 7, [&](const auto& config) {
      if (has_bend(config)) return;
      Weights weights = initial_weights(7, Dtype::f64);
      TypeParam model(config, weights);
      move(model, 0.1);  // norms and biases that are not 1 and 0
      testing::want_gradients(model);
      const EncoderDecoderTrainingOptions options{.dropout = dropout, .label_smoothing = 0.1, .seed = 5};
      const LossSum sum = model.backward(batch, options);
      EXPECT_EQ(std::abs(sum.nll - model.loss(batch).sum) <= 1e-9, dropout == 0);
      constexpr double kStep = 1e-5;
      const double slope = move(model, kStep);
      const double above = model.backward(batch, options).sum;
      move(model, -2 * kStep);
      const double below = model.backward(batch, options).sum;
      // The error of a difference quotient is of the order of the step squared.
      EXPECT_NEAR((above - below) / (2 * kStep), slope, 1e-5 * std::max(1.0, std::abs(slope)));
    });
  }
}

TYPED_TEST(MarianAndSeq2Seq, FoldersOpenAgainAsTheSame) {
  const TemporaryFolder folder;
  this->for_each_config(7, [&](const auto& config) {
    const TypeParam model = TypeParam::initial(config, 3);
    model.save(folder / "");
    EXPECT_TRUE(EncoderDecoder::is_in(folder / ""));
    EXPECT_EQ(TypeParam::check(folder / ""), config);
    EXPECT_EQ(EncoderDecoder::check(folder / ""), config.tokens());
    expect_equal(EncoderDecoder::load(folder / "")->logits(this->pairs_), model.logits(this->pairs_));
    const bool own = slurp(folder / "config.json").find("\"model_type\": \"qkv") != std::string::npos;
    EXPECT_EQ(own, model.transformers_class().empty());
  });
}

TYPED_TEST(MarianAndSeq2Seq, StepsGiveWhatTheWholePassGivesInAnyCompanyAndOnAnyThreads) {
  const PairBatch& batch = this->pairs_;
  this->for_each_config(1, [&](const auto& config) {
    const TypeParam model = TypeParam::initial(config, 3);
    const Tensor logits = model.logits(batch, {.threads = 1});
    EXPECT_TRUE(same_bits(model.logits(batch, {.threads = 5}), logits));
    const Tensor alone = model.logits(pairs_of({{{3, 9, 4, 0}, {5, 1, 8, 2, 0}}}));
    EXPECT_TRUE(same_bits(alone, Tensor::copy(logits.view().slice(0, 0, 5))));
    ASSERT_EQ(logits.shape(), (Dims{7, config.output_vocab()}));
    const auto decoder = model.decoder(batch.source, batch.source_offsets);
    EXPECT_EQ(decoder->vocab(), config.output_vocab());
    // Two beams of the first source, whose second one is continued, and one of the second, which ends after two tokens.
    std::vector<std::int64_t> parents{0, 1};
    std::vector<std::int32_t> tokens{config.start, config.start};
    for (std::int64_t t = 0; t < 5; ++t) {
      const TensorView rows = decoder->step(parents, tokens);
      const auto expect_row = [&](std::int64_t row, std::int64_t token) {
        EXPECT_LE(testing::difference(rows.select(0, row), logits.view().select(0, token)), step_tolerance(config));
      };
      expect_row(t == 0 ? 0 : 1, t);
      if (t < 2) expect_row(t == 0 ? 1 : 2, 5 + t);
      parents = t == 0 ? std::vector<std::int64_t>{0, 0, 1} : std::vector<std::int64_t>{0, 1};
      tokens = {9, batch.target[static_cast<std::size_t>(t)]};
      if (t == 0) tokens.push_back(batch.target[5]);
    }
  });
}

TEST(RecurrentEncoderDecoder, IsTorchs) {
  const auto golden = golden_tensors("seq2seq/seq2seq.safetensors");
  const auto offsets = [&](const char* name) {
    const Tensor& lengths = golden.at(name);
    return offsets_of(std::span(lengths.data<std::int64_t>(), static_cast<std::size_t>(lengths.size(0))));
  };
  const PairBatch batch{integers(golden.at("source")), integers(golden.at("target")), offsets("source_lengths"),
                        offsets("target_lengths")};
  // The tensors whose name begins so, by the rest of it.
  const auto part = [&](const std::string& start) {
    std::map<std::string, Tensor> tensors;
    for (const auto& [key, tensor] : golden) {
      if (key.starts_with(start)) tensors[key.substr(start.size())] = tensor;
    }
    return tensors;
  };
  int cases = 0;
  for (int i = 0; i < 80; ++i) {
    RecurrentEncoderDecoderConfig config;
    set_options(i, config);
    config.model_dim = 4;
    const std::string name =
        fmt::format("{}_{}_{}.", recurrent_attention_kinds()[static_cast<std::size_t>(i % 4)].first,
                    recurrent_cells()[static_cast<std::size_t>(i / 4 % 4)].first, config.directions);
    if (config.layers != 2 || !golden.contains(name + "loss")) continue;
    SCOPED_TRACE(name);
    ++cases;
    const double loss = *golden.at(name + "loss").data<double>();
    // Relative to the largest of all gradients: those of w_query and w_key are differences of much larger numbers.
    double largest = 0;
    for (const auto& [key, tensor] : part(name + "gradients.")) largest = std::max(largest, testing::largest(tensor));
    for (const auto& [dtype, tolerance] : {std::pair(Dtype::f64, 1e-12), {Dtype::f32, 1e-5}}) {
      Weights weights(part(name + "weights."), "golden", dtype);
      RecurrentEncoderDecoder model(config, weights);
      weights.expect_empty();
      const auto expect_same = [&, most = largest * tolerance](const Tensor& given, const std::string& of) {
        EXPECT_LE(testing::difference(given, golden.at(name + of)), most) << of;
      };
      expect_same(model.logits(batch), "logits");
      testing::want_gradients(model);
      const LossSum sum = model.backward(batch, {});
      EXPECT_NEAR(sum.sum, loss, loss * tolerance);
      EXPECT_EQ(sum.count, 7);
      EXPECT_NEAR(model.loss(batch).sum, sum.sum, tolerance);
      model.visit([&](const std::string& key, const Parameter& own) { expect_same(own.gradient, "gradients." + key); });
    }
  }
  EXPECT_EQ(cases, 24);
}

constexpr RecurrentAttentionKind kAttending[] = {RecurrentAttentionKind::additive, RecurrentAttentionKind::dot,
                                                 RecurrentAttentionKind::bilinear};

RecurrentEncoderDecoder attending(RecurrentAttentionKind kind) {
  Weights weights = initial_weights(3, Dtype::f64);
  return RecurrentEncoderDecoder(
      {.kind = kind, .vocab = 11, .positions = 9, .model_dim = 6, .padding = 10, .start = 10}, weights);
}

PairBatch one_pair() { return pairs_of({{{3, 9, 4, 0}, {5, 1, 8, 0}}}); }

// Times a factor: the columns of the matrices that read a context behind a state or an embedding.
void scale_contexts(RecurrentEncoderDecoder& model, double factor) {
  const std::int64_t dim = model.config().model_dim;
  model.update([&](const std::string& name, Parameter& own) {
    const bool reads_contexts = name == "readout.weight" || name == "decoder.rnn.weight_ih_l0";
    if (!reads_contexts || own.value.size(1) != 2 * dim) return;
    for (std::int64_t i = 0; i < own.value.element_count(); ++i) {
      if (i % (2 * dim) >= dim) own.value.data<double>()[i] *= factor;
    }
  });
}

double log_probability(const RecurrentEncoderDecoder& model, const PairBatch& batch, std::int64_t token) {
  const Tensor logits = model.logits(batch);
  const double* row = logits.data<double>() + token * logits.size(1);
  double sum = 0;
  for (std::int64_t c = 0; c < logits.size(1); ++c) sum += std::exp(row[c]);
  return row[batch.target[static_cast<std::size_t>(token)]] - std::log(sum);
}

// Whatever reads a context reads it times 1 + e: the slope at e = 0 is the sum of gradient * context over all steps.
TEST(HeadsGradient, OfARecurrentDecoderIsTheSlopeOfItsContexts) {
  constexpr double kStep = 1e-5;
  for (const RecurrentAttentionKind kind : kAttending) {
    for (const std::int64_t token : {0, 3}) {
      RecurrentEncoderDecoder model = attending(kind);
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
  for (const RecurrentAttentionKind kind : kAttending) {
    const RecurrentEncoderDecoder model = attending(kind);
    SeenByName whole, hidden;
    model.logits(one_pair(), {}, &whole);
    const Tensor logits = model.logits(one_pair(), {.masks = {.memory = std::span(&mask, 1)}}, &hidden);
    const Tensor& before = whole.all.at("decoder.attention.0.weights");
    const Tensor& after = hidden.all.at("decoder.attention.0.weights");
    for (std::int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(after.view().at<double>({i, 0, 2}), 0);
      if (kind == RecurrentAttentionKind::additive && i > 0) continue;
      for (const std::int64_t j : {0, 1, 3}) {
        const double share = before.view().at<double>({i, 0, j}) / (1 - before.view().at<double>({i, 0, 2}));
        EXPECT_NEAR(after.view().at<double>({i, 0, j}), share, 1e-12);
      }
    }
    EXPECT_GT(testing::difference(logits, model.logits(one_pair())), 1e-6);
    const EncoderDecoderOptions options{.masks = {.memory = std::span(&mask, 1)}};
    EXPECT_THROW(model.decoder(one_pair().source, one_pair().source_offsets, options), std::invalid_argument);
    EXPECT_THROW(model.logits(one_pair(), {.masks = {.encoder = std::span(&mask, 1)}}), std::invalid_argument);
  }
}

TEST(RecurrentEncoderDecoder, RefusesWhatItCannotBe) {
  RecurrentEncoderDecoderConfig config;
  set_options(0, config);
  const RecurrentEncoderDecoder model = RecurrentEncoderDecoder::initial(config, 1);
  const std::pair<PairBatch, std::string> batches[] = {
      {pairs_of({{{1, 2, 3, 4, 5, 6, 7, 8, 9, 0}, {0}}}),
       "positions: sequence 0 has 10 rows; there are positions for 0 to 9"},
      {pairs_of({{{11}, {0}}}), "embedding: id 11 is not in a table of 11 rows"}};
  for (const auto& [batch, message] : batches) {
    EXPECT_EQ(message_of<std::invalid_argument>([&, &bad = batch] { model.logits(bad); }), message);
  }
  const TemporaryFolder folder;
  model.save(folder / "");
  const auto refusal = [&](const std::string& changed) {
    folder.put("config.json", changed);
    return refusal_of<EncoderDecoder>(folder);
  };
  expect_edits_refused(nlohmann::json::parse(slurp(folder / "config.json")), R"(
/attention = "bent" => attention must be "fixed", "additive", "dot" or "bilinear"
/d_model = 0 => d_model is 0, must be 1 to 1048576
/encoder_directions = 3 => encoder_directions is 3, must be 1 to 2
/model_type = "gru" => model_type is "gru"; the supported encoder-decoders are "marian", "bart", "mbart" and "qkv"
)",
                       "config.json: ", refusal);
}

}  // namespace
}  // namespace qkv::test
