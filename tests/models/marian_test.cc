// Marian and BART against transformers (tests/golden/marian/make.py): the folder, the logits, the gradients and ten
// steps of training; and what must hold of any model: padding stays out, threads do not show, a copy can be learned.
#include "qkv/models/marian.h"

#include <cmath>

#include "jacobian.h"
#include "models/marian_names.h"
#include "models/models_for_test.h"
#include "qkv/random.h"
#include "qkv/threads.h"
#include "qkv/train/adam.h"

namespace qkv {
namespace {

using test::golden_path;
using test::message_of;
using test::offsets_for;

struct MarianGoldenFiles {
  std::string folder, expected;
  bool padding_left_out;  // of the logits expected; it is the last one
};

PairBatch golden_batch(const std::map<std::string, Tensor>& expected) {
  return {.source = test::integers(expected.at("source")),
          .target = test::integers(expected.at("target")),
          .source_offsets = expected.at("source_offsets"),
          .target_offsets = expected.at("target_offsets")};
}

// The largest difference, in units of the largest expected number.
double relative(const TensorView& actual, const TensorView& expected) {
  return testing::difference(actual, expected) / testing::largest(expected);
}

void step(Adam& adam, double rate, double scale, Marian& model) {
  adam.begin_step(rate, scale);
  model.update([&](const std::string& name, Parameter& own) { adam.step(name, own); });
}

class MarianGolden : public ::testing::TestWithParam<MarianGoldenFiles> {
 protected:
  double expected_number(const char* name, std::int64_t i) const {
    return test::values_of(expected_.at(name))[static_cast<std::size_t>(i)];
  }
  void expect_gradients(const LossSum& loss) const {
    EXPECT_NEAR(loss.nll, expected_number("loss", 0), 1e-4);
    std::map<std::string, Tensor> gradients;
    model_.visit([&](const std::string& name, const Parameter& own) { gradients[name] = own.gradient; });
    const std::vector<TensorName> names = marian_names(model_.config()).all();
    EXPECT_EQ(names.size(), gradients.size());
    for (const TensorName& named : names) {
      std::vector<double> expected;
      for (const std::string& name : named.theirs) {
        const std::vector<double> part = test::values_of(expected_.at("gradient." + name));
        expected.insert(expected.end(), part.begin(), part.end());
      }
      const Tensor theirs = Tensor::of<double>({std::ssize(expected)}, expected);
      EXPECT_LT(relative(gradients.at(named.ours), theirs), 1e-4) << named.ours;
    }
  }

  const std::map<std::string, Tensor> expected_ = test::golden_tensors("marian/" + GetParam().expected);
  const PairBatch batch_ = golden_batch(expected_);
  const std::string folder_ = golden_path("marian/" + GetParam().folder);
  Marian model_ = Marian::load(folder_);
};

INSTANTIATE_TEST_SUITE_P(, MarianGolden,
                         ::testing::Values(MarianGoldenFiles{"tiny", "marian.safetensors", true},
                                           MarianGoldenFiles{"bart", "bart.safetensors", false},
                                           MarianGoldenFiles{"separate", "separate.safetensors", true},
                                           MarianGoldenFiles{"mbart", "mbart.safetensors", false},
                                           MarianGoldenFiles{"own", "own.safetensors", true}),
                         [](const auto& golden) { return golden.param.folder; });

TEST_P(MarianGolden, GivesTheLogitsOfTransformers) {
  const Tensor logits = model_.logits(batch_);
  const Tensor& expected = expected_.at("logits");  // f64
  ASSERT_EQ(logits.shape(), (Dims{expected.size(0), expected.size(1) + (GetParam().padding_left_out ? 1 : 0)}));
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
  const test::TemporaryFolder folder;
  model_.save(folder / "");
  const auto saved = read_safetensors(folder / "model.safetensors").tensors;
  const auto given = read_safetensors(folder_ + "/model.safetensors").tensors;
  ASSERT_EQ(saved.size(), given.size());
  for (const auto& [name, tensor] : given) test::expect_equal(saved.at(name), tensor);
  const Marian again = Marian::load(folder / "");
  EXPECT_EQ(again.config(), model_.config());
  const auto config = nlohmann::json::parse(test::slurp(folder / "config.json"));
  const auto given_config = nlohmann::json::parse(test::slurp(folder_ + "/config.json"));
  for (const char* key : {"architectures", "model_type"}) {
    EXPECT_EQ(config.value(key, nlohmann::json()), given_config.value(key, nlohmann::json()));
  }
  EXPECT_EQ(again.config().decoder_heads, 2);
  EXPECT_EQ(again.config().activation, Activation::silu);
  test::expect_equal(again.logits(batch_), model_.logits(batch_));
}

// A bare BartModel, without what makes logits: its names lack a part, and the bias of the logits is 0.
TEST(Marian, OpensABareModel) {
  const test::GoldenCopy folder("marian/bart");
  SafeTensors content;
  for (const auto& [name, tensor] : test::golden_tensors("marian/bart/model.safetensors")) {
    if (name.starts_with("model.")) content.tensors[name.substr(6)] = tensor;
  }
  write_safetensors(folder / "model.safetensors", content);
  const PairBatch batch = golden_batch(test::golden_tensors("marian/bart.safetensors"));
  const Marian whole = Marian::load(golden_path("marian/bart"));
  Tensor logits = Marian::load(folder / "").logits(batch);
  whole.visit([&](const std::string& name, const Parameter& bias) {
    for (std::int64_t i = 0; name == kLogitsBias && i < logits.element_count(); ++i) {
      logits.data<float>()[i] += bias.value.data<float>()[i % logits.size(1)];
    }
  });
  EXPECT_LE(testing::difference(logits, whole.logits(batch)), 1e-5);
}

TEST(Marian, SavesHalfTheBytes) {
  const test::TemporaryFolder folder;
  const Marian model = Marian::load(golden_path("marian/tiny"));
  model.save(folder / "", Dtype::bf16);
  for (const auto& [name, tensor] : read_safetensors(folder / "model.safetensors").tensors) {
    EXPECT_EQ(tensor.dtype(), Dtype::bf16) << name;
  }
  const PairBatch batch = golden_batch(test::golden_tensors("marian/marian.safetensors"));
  EXPECT_LT(relative(Marian::load(folder / "").logits(batch), model.logits(batch)), 0.05);  // weights of eight bits
}

// The tied table may be there under all its names.
TEST(Marian, TiesWhatIsThereTwice) {
  const test::GoldenCopy folder("marian/tiny");
  SafeTensors content = read_safetensors(folder / "model.safetensors");
  content.tensors["lm_head.weight"] = Tensor::copy(content.tensors.at("model.shared.weight"));
  write_safetensors(folder / "model.safetensors", content);
  Marian::load(folder / "");
  content.tensors["lm_head.weight"].data<float>()[0] += 1;
  write_safetensors(folder / "model.safetensors", content);
  EXPECT_NE(message_of<FormatError>([&] { Marian::load(folder / ""); }).find("they are tied"), std::string::npos);
}

TEST(Marian, RefusesOtherConfigs) {
  const std::string
      of_model = " for this model",
      pegasus = R"(model_type is "pegasus"; the supported encoder-decoders are "marian", "bart", "mbart" and "qkv")";
  test::expect_configs_refused<Marian>(
      "marian/tiny",
      {{"/model_type", "\"pegasus\"", pegasus},
       {"/activation_function", "\"tanh\"",
        R"(activation_function must be "relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "swish" or "silu", is "tanh")"},
       {"/encoder_attention_heads", "5", "encoder_attention_heads is 5, must divide d_model, 12"},
       {"/tie_word_embeddings", "false", "tie_word_embeddings must be true" + of_model},
       {"/pad_token_id", "23", "pad_token_id is 23, must be 0 to 22"},
       {"/decoder_vocab_size", "24", "decoder_vocab_size is 24, must be 23 to 23"},
       {"/d_model", "0", "d_model is 0, must be 1 to 1048576"},
       {"/vocab_size", "", "vocab_size is missing"}});
  test::expect_configs_refused<Marian>(
      "marian/bart",
      {{"/model_type", "\"pegasus\"", pegasus},
       {"/model_type", "7", "model_type must be a string, is number"},
       {"/normalize_before", "true", "normalize_before must be false" + of_model},
       {"/add_final_layer_norm", "true", "add_final_layer_norm must be false" + of_model},
       {"/normalize_embedding", "false", "normalize_embedding must be true" + of_model},
       {"/static_position_embeddings", "true", "static_position_embeddings must be false" + of_model},
       {"/tie_word_embeddings", "false", "tie_word_embeddings must be true" + of_model},
       {"/max_position_embeddings", "0", "max_position_embeddings is 0, must be 1 to 1048576"},
       {"/scale_embedding", "1", "scale_embedding must be true or false, is number"},
       {"/decoder_start_token_id", "23", "decoder_start_token_id is 23, must be 0 to 22"},
       {"/max_position_embeddings", "10",  // its table has another size
        "model.safetensors: tensor \"model.encoder.embed_positions.weight\" is [11, 12]; it must be [12, 12]"}});
}

TEST(Marian, KnowsEncoderDecoders) {
  const test::TemporaryFolder folder;
  const std::pair<const char*, bool> configs[] = {
      {R"({"model_type": "bart"})", true},
      {R"({"model_type": "pegasus", "is_encoder_decoder": true})", true},  // to be refused by load
      {R"({"model_type": "bert", "is_encoder_decoder": false})", false},
      {"{}", false}};
  for (const auto& [config, is_one] : configs) {
    folder.put("config.json", config);
    EXPECT_EQ(Marian::is_in(folder / ""), is_one) << config;
  }
}

TEST(Marian, RefusesBatchesThatDoNotFit) {
  const Marian model = Marian::load(golden_path("marian/tiny"));
  const std::vector<std::int32_t> ten(10, 1), unknown{23};
  EXPECT_NE(
      message_of<std::invalid_argument>([&] { model.encode(ten, offsets_for({10})); }).find("positions for 0 to 9"),
      std::string::npos);
  EXPECT_THROW(model.encode(unknown, offsets_for({1})), std::invalid_argument);
  EXPECT_THROW(model.encode(ten, offsets_for({9})), std::invalid_argument);
  EXPECT_EQ(model.encode({}, offsets_for({0})).shape(), (Dims{0, 12}));
}

Marian toy() {
  return Marian::initial({.vocab = 10,
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

const std::vector<TokenPair> kToyPair = {{.source = {1, 2, 0}, .target = {2, 1, 0}}};

TEST(Marian, PaddingStaysZero) {
  Marian model = toy();
  testing::want_gradients(model);
  Adam adam({.weight_decay = 0.1});
  for (int i = 0; i < 3; ++i) {
    model.backward(test::pairs_of(kToyPair), {.dropout = 0.2, .label_smoothing = 0.1, .seed = 5});
    step(adam, 0.01, 1, model);
  }
  model.visit([&](const std::string& name, const Parameter& own) {
    if (name == "shared.weight") {
      testing::expect_zeros(own.value.view().select(0, 9));
      EXPECT_NE(own.value.view().at<float>({1, 0}), 0);
    }
    if (name == kLogitsBias) {
      EXPECT_EQ(own.value.data<float>()[9], 0);
    }
  });
}

TEST(Marian, DropoutFollowsItsSeed) {
  const auto loss_with = [](double p, std::uint64_t seed) {
    return toy().backward(test::pairs_of(kToyPair), {.dropout = p, .seed = seed}).sum;
  };
  EXPECT_EQ(loss_with(0.3, 1), loss_with(0.3, 1));
  EXPECT_NE(loss_with(0.3, 1), loss_with(0.3, 2));
  EXPECT_EQ(loss_with(0, 1), loss_with(0, 2));
}

// Sources of two to four tokens; the target is the source backwards.
PairBatch reversed_pairs(std::size_t count, Random& random) {
  std::vector<TokenPair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::int32_t> tokens(2 + random.below(3));
    for (std::int32_t& token : tokens) token = 1 + static_cast<std::int32_t>(random.below(4));
    TokenPair pair{.source = tokens, .target = {tokens.rbegin(), tokens.rend()}};
    pair.source.push_back(0);
    pair.target.push_back(0);
    pairs.push_back(std::move(pair));
  }
  return test::pairs_of(pairs);
}

TEST(Marian, SlowLearnsToTurnSequencesRound) {
  constexpr int kSteps = 300;
  Marian model = toy();
  testing::want_gradients(model);
  Adam adam({.beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9});
  Random random(1);
  for (int i = 0; i < kSteps; ++i) {
    const LossSum loss = model.backward(reversed_pairs(40, random), {});
    const double warmth = std::min(1.0, i / (kSteps * 0.1)), left = 1 - i / static_cast<double>(kSteps);
    step(adam, 0.01 * warmth * left, 1 / static_cast<double>(loss.count), model);
  }
  const LossSum held_out = model.loss(reversed_pairs(100, random));
  EXPECT_LT(held_out.sum / static_cast<double>(held_out.count), 1e-2);
}

TEST(Marian, TrainingHasTheSameBitsForAnyNumberOfThreads) {
  std::map<std::string, Tensor> expected;
  for (const int threads : {1, 2, 3}) {
    set_threads(threads);
    Marian model = toy();
    testing::want_gradients(model);
    Adam adam({});
    Random random(1);
    for (std::uint64_t i = 0; i < 2; ++i) {
      model.backward(reversed_pairs(300, random), {.dropout = 0.1, .seed = i});
      step(adam, 1e-3, 1e-3, model);
    }
    model.visit([&](const std::string& name, const Parameter& own) {
      if (threads == 1) expected[name] = own.value;
      EXPECT_TRUE(testing::same_bits(own.value, expected.at(name))) << name << " on " << threads;
    });
  }
  set_threads(0);
}

}  // namespace
}  // namespace qkv
