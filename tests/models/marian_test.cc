// Marian and BART against transformers (tests/golden/marian/make.py): the folder, the logits, the gradients and ten
// steps of training; and what must hold of any model: padding stays out, threads do not show.
#include "jacobian.h"
#include "models/encoder_decoders/transformer_encoder_decoder_folder.h"
#include "models/models_for_test.h"
#include "qkv/models/transformer_encoder_decoder.h"
#include "qkv/random.h"
#include "qkv/threads.h"
#include "qkv/train/adam.h"

namespace qkv::test {
namespace {

PairBatch golden_batch(const std::map<std::string, Tensor>& expected) {
  return {integers(expected.at("source")), integers(expected.at("target")), expected.at("source_offsets"),
          expected.at("target_offsets")};
}

// The largest difference, in units of the largest expected number.
double relative(const TensorView& actual, const TensorView& expected) {
  return testing::difference(actual, expected) / testing::largest(expected);
}

void step(Adam& adam, double rate, double scale, TransformerEncoderDecoder& model) {
  adam.begin_step(rate, scale);
  model.update([&](const std::string& name, Parameter& own) { adam.step(name, own); });
}

class MarianGolden : public ::testing::TestWithParam<std::string> {
 protected:
  double expected_number(const char* name, std::int64_t i) const {
    return values_of(expected_.at(name))[static_cast<std::size_t>(i)];
  }
  void expect_gradients(const LossSum& loss) const {
    EXPECT_NEAR(loss.nll, expected_number("loss", 0), 1e-4);
    std::map<std::string, Tensor> gradients;
    model_.visit([&](const std::string& name, const Parameter& own) { gradients[name] = own.gradient; });
    const std::vector<TensorName> names = names_of(model_.config()).all();
    EXPECT_EQ(names.size(), gradients.size());
    for (const TensorName& named : names) {
      std::vector<double> theirs;
      for (const std::string& name : named.theirs) {
        for (const double value : values_of(expected_.at("gradient." + name))) theirs.push_back(value);
      }
      const Tensor expected = Tensor::of<double>({std::ssize(theirs)}, theirs);
      EXPECT_LT(relative(gradients.at(named.ours), expected), 1e-4) << named.ours;
    }
  }

  const std::map<std::string, Tensor> expected_ =
      golden_tensors("marian/" + (GetParam() == "tiny" ? "marian" : GetParam()) + ".safetensors");
  const PairBatch batch_ = golden_batch(expected_);
  const std::string folder_ = golden_path("marian/" + GetParam());
  TransformerEncoderDecoder model_ = TransformerEncoderDecoder::load(folder_);
};

INSTANTIATE_TEST_SUITE_P(, MarianGolden, ::testing::Values("tiny", "bart", "separate", "mbart", "own"),
                         [](const auto& folder) { return folder.param; });

TEST_P(MarianGolden, GivesTheLogitsOfTransformers) {
  const Tensor logits = model_.logits(batch_);
  const Tensor& expected = expected_.at("logits");                    // f64
  const std::int64_t padding = GetParam().ends_with("bart") ? 0 : 1;  // is left out; it is the last one
  ASSERT_EQ(logits.shape(), (Dims{expected.size(0), expected.size(1) + padding}));
  EXPECT_LT(testing::difference(logits.view().slice(1, 0, expected.size(1)), expected), 2e-5);
  const LossSum loss = model_.loss(batch_);
  EXPECT_EQ(loss.count, 12);
  EXPECT_NEAR(loss.sum, expected_number("loss", 0), 1e-4);
}

TEST_P(MarianGolden, GivesTheGradientsAndTenLossesOfTorch) {
  testing::want_gradients(model_);
  Adam adam({.beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9});
  for (std::int64_t i = 0; i < 10; ++i) {
    const LossSum loss = model_.backward(batch_, {.label_smoothing = 0.1});
    const double tokens = static_cast<double>(loss.count);
    EXPECT_NEAR(loss.sum / tokens, expected_number("losses", i), 1e-4) << i;
    if (i == 0) expect_gradients(loss);
    step(adam, 0.02, 1 / tokens, model_);
  }
}

TEST_P(MarianGolden, SavesWhatItLoads) {
  const TemporaryFolder folder;
  model_.save(folder / "");
  const auto saved = read_safetensors(folder / "model.safetensors").tensors;
  const auto given = read_safetensors(folder_ + "/model.safetensors").tensors;
  ASSERT_EQ(saved.size(), given.size());
  for (const auto& [name, tensor] : given) expect_equal(saved.at(name), tensor);
  const TransformerEncoderDecoder again = TransformerEncoderDecoder::load(folder / "");
  EXPECT_EQ(again.config(), model_.config());
  const auto value_in = [](const std::string& config, const char* key) {
    return nlohmann::json::parse(slurp(config)).value(key, nlohmann::json());
  };
  for (const char* key : {"architectures", "model_type"}) {
    EXPECT_EQ(value_in(folder / "config.json", key), value_in(folder_ + "/config.json", key));
  }
  expect_equal(again.logits(batch_), model_.logits(batch_));
}

// A bare BartModel, without what makes logits: its names lack a part, and the bias of the logits is 0.
TEST(TransformerEncoderDecoder, OpensABareModel) {
  const GoldenCopy folder("marian/bart");
  SafeTensors content;
  for (const auto& [name, tensor] : golden_tensors("marian/bart/model.safetensors")) {
    if (name.starts_with("model.")) content.tensors[name.substr(6)] = tensor;
  }
  write_safetensors(folder / "model.safetensors", content);
  const PairBatch batch = golden_batch(golden_tensors("marian/bart.safetensors"));
  const TransformerEncoderDecoder whole = TransformerEncoderDecoder::load(golden_path("marian/bart"));
  Tensor logits = TransformerEncoderDecoder::load(folder / "").logits(batch);
  whole.visit([&](const std::string& name, const Parameter& bias) {
    for (std::int64_t i = 0; name == kLogitsBias && i < logits.element_count(); ++i) {
      logits.data<float>()[i] += bias.value.data<float>()[i % logits.size(1)];
    }
  });
  EXPECT_LE(testing::difference(logits, whole.logits(batch)), 1e-5);
}

TEST(TransformerEncoderDecoder, SavesHalfTheBytes) {
  const TemporaryFolder folder;
  const TransformerEncoderDecoder model = TransformerEncoderDecoder::load(golden_path("marian/tiny"));
  model.save(folder / "", Dtype::bf16);
  for (const auto& [name, tensor] : read_safetensors(folder / "model.safetensors").tensors) {
    EXPECT_EQ(tensor.dtype(), Dtype::bf16) << name;
  }
  const PairBatch batch = golden_batch(golden_tensors("marian/marian.safetensors"));
  EXPECT_LT(relative(TransformerEncoderDecoder::load(folder / "").logits(batch), model.logits(batch)),
            0.05);  // weights of eight bits
}

// The tied table may be there under all its names.
TEST(TransformerEncoderDecoder, TiesWhatIsThereTwice) {
  const GoldenCopy folder("marian/tiny");
  SafeTensors content = read_safetensors(folder / "model.safetensors");
  Tensor& table = content.tensors["lm_head.weight"] = Tensor::copy(content.tensors.at("model.shared.weight"));
  write_safetensors(folder / "model.safetensors", content);
  TransformerEncoderDecoder::load(folder / "");
  table.data<float>()[0] += 1;
  write_safetensors(folder / "model.safetensors", content);
  EXPECT_NE(message_of<FormatError>([&] { TransformerEncoderDecoder::load(folder / ""); }).find("they are tied"),
            std::string::npos);
}

TEST(TransformerEncoderDecoder, RefusesOtherConfigs) {
  expect_configs_refused<TransformerEncoderDecoder>("marian/tiny", R"(
/model_type = "pegasus" => model_type is "pegasus"; the supported encoder-decoders are "marian", "bart", "mbart" and
    "qkv"
/activation_function = "tanh" => activation_function must be "relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "swish" or
    "silu", is "tanh"
/encoder_attention_heads = 5 => encoder_attention_heads is 5, must divide d_model, 12
/tie_word_embeddings = false => tie_word_embeddings must be true for this model
/pad_token_id = 23 => pad_token_id is 23, must be 0 to 22
/decoder_vocab_size = 24 => decoder_vocab_size is 24, must be 23 to 23
/d_model = 0 => d_model is 0, must be 1 to 1048576
/vocab_size => vocab_size is missing
)");
  expect_configs_refused<TransformerEncoderDecoder>("marian/bart", R"(
/model_type = 7 => model_type must be a string, is number
/normalize_before = true => normalize_before must be false for this model
/add_final_layer_norm = true => add_final_layer_norm must be false for this model
/normalize_embedding = false => normalize_embedding must be true for this model
/static_position_embeddings = true => static_position_embeddings must be false for this model
/tie_word_embeddings = false => tie_word_embeddings must be true for this model
/max_position_embeddings = 0 => max_position_embeddings is 0, must be 1 to 1048576
/scale_embedding = 1 => scale_embedding must be true or false, is number
/decoder_start_token_id = 23 => decoder_start_token_id is 23, must be 0 to 22
/max_position_embeddings = 10 => model.safetensors: tensor "model.encoder.embed_positions.weight" is [11, 12]; it must
    be [12, 12]
)");
}

TEST(TransformerEncoderDecoder, RefusesBatchesThatDoNotFit) {
  const TransformerEncoderDecoder model = TransformerEncoderDecoder::load(golden_path("marian/tiny"));
  const std::vector<std::int32_t> ten(10, 1), unknown{23};
  EXPECT_EQ(message_of<std::invalid_argument>([&] { model.encode(ten, offsets_for({10})); }),
            "positions: sequence 0 has 10 rows; there are positions for 0 to 9");
  EXPECT_THROW(model.encode(unknown, offsets_for({1})), std::invalid_argument);
  EXPECT_THROW(model.encode(ten, offsets_for({9})), std::invalid_argument);
  const Mask mask;
  const auto generating = [&] { model.decoder(ten, offsets_for({10}), {.masks = {.decoder = std::span(&mask, 1)}}); };
  EXPECT_EQ(message_of<std::invalid_argument>(generating),
            "transformer_encoder_decoder: decoder() takes no masks; logits() does");
  EXPECT_EQ(model.encode({}, offsets_for({0})).shape(), (Dims{0, 12}));
}

TransformerEncoderDecoder toy() {
  return TransformerEncoderDecoder::initial({.vocab = 10,
                                             .positions = 8,
                                             .model_dim = 32,
                                             .encoder_layers = 1,
                                             .decoder_layers = 1,
                                             .encoder_heads = 4,
                                             .decoder_heads = 4,
                                             .encoder_ff_dim = 64,
                                             .decoder_ff_dim = 64,
                                             .end = 0,
                                             .padding = 9,
                                             .start = 9},
                                            1);
}

TEST(TransformerEncoderDecoder, TrainingHasTheSameBitsForAnyNumberOfThreadsAndLeavesPaddingZero) {
  Random random(1);
  std::vector<TokenPair> pairs(300);
  for (auto& [source, target] : pairs) {
    for (std::uint64_t left = 2 + random.below(4); left > 0; --left) {
      source.push_back(1 + static_cast<std::int32_t>(random.below(8)));
    }
    target.assign(source.rbegin(), source.rend());
    source.push_back(0);
    target.push_back(0);
  }
  std::map<std::string, Tensor> expected;
  for (const int threads : {1, 2, 3}) {
    set_threads(threads);
    TransformerEncoderDecoder model = toy();
    testing::want_gradients(model);
    Adam adam({.weight_decay = 0.1});
    for (std::uint64_t i = 0; i < 3; ++i) {
      model.backward(pairs_of(pairs), {.dropout = 0.2, .label_smoothing = 0.1, .seed = i});
      step(adam, 0.01, 1e-3, model);
    }
    model.visit([&](const std::string& name, const Parameter& own) {
      if (threads == 1) expected[name] = own.value;
      EXPECT_TRUE(testing::same_bits(own.value, expected.at(name))) << name << " on " << threads;
    });
  }
  set_threads(0);
  testing::expect_zeros(expected.at("shared.weight").view().select(0, 9));
  EXPECT_NE(expected.at("shared.weight").view().at<float>({1, 0}), 0);
  EXPECT_EQ(expected.at(kLogitsBias).data<float>()[9], 0);
}

TEST(TransformerEncoderDecoder, DropoutFollowsItsSeed) {
  const auto loss_with = [batch = pairs_of({{{1, 2, 0}, {2, 1, 0}}})](double p, std::uint64_t seed) {
    return toy().backward(batch, {.dropout = p, .seed = seed}).sum;
  };
  EXPECT_EQ(loss_with(0.3, 1), loss_with(0.3, 1));
  EXPECT_NE(loss_with(0.3, 1), loss_with(0.3, 2));
  EXPECT_EQ(loss_with(0, 1), loss_with(0, 2));
}

}  // namespace
}  // namespace qkv::test
