// Marian and BART against transformers (tests/golden/marian/make.py): the folder, the logits, the gradients and ten
// steps of training; and what must hold of any model: padding stays out, threads do not show, a copy can be learned.
#include "qkv/models/marian.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "io/files_for_test.h"
#include "models/marian_folder.h"
#include "qkv/files.h"
#include "qkv/random.h"
#include "qkv/threads.h"
#include "qkv/train/adam.h"
#include "qkv/train/training.h"

namespace qkv {
namespace {

std::string golden_path(const std::string& name) { return QKV_TEST_DATA "/golden/marian/" + name; }

struct Golden {
  std::string folder, expected;
  bool padding_left_out;  // of the logits expected; it is the last one
};

std::map<std::string, Tensor> expected_of(const Golden& golden) {
  return read_safetensors(golden_path(golden.expected)).tensors;
}

PairBatch batch_of(const std::map<std::string, Tensor>& expected) {
  const auto ids = [&](const std::string& name) {
    const Tensor& tensor = expected.at(name);
    return std::vector<std::int32_t>(tensor.data<std::int32_t>(), tensor.data<std::int32_t>() + tensor.element_count());
  };
  return {.source = ids("source"),
          .target = ids("target"),
          .source_offsets = expected.at("source_offsets"),
          .target_offsets = expected.at("target_offsets")};
}

const Golden kMarian{"tiny", "marian.safetensors", true}, kBart{"bart", "bart.safetensors", false},
    kSeparate{"separate", "separate.safetensors", true}, kMbart{"mbart", "mbart.safetensors", false},
    kOwn{"own", "own.safetensors", true};

PairBatch golden_batch() { return batch_of(expected_of(kMarian)); }

double at(const TensorView& view, std::int64_t i) { return test::values_of(view)[static_cast<std::size_t>(i)]; }

void want_gradients(Marian& model) {
  model.update([](const std::string&, Parameter& own) { own.want_gradient(); });
}

// The largest difference, in units of the largest expected number.
double relative(const std::vector<double>& actual, const std::vector<double>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference = std::max(difference, std::abs(actual[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

class MarianGolden : public testing::TestWithParam<Golden> {
 protected:
  const std::map<std::string, Tensor> expected_ = expected_of(GetParam());
  const PairBatch batch_ = batch_of(expected_);
  const std::string folder_ = golden_path(GetParam().folder);
};

INSTANTIATE_TEST_SUITE_P(, MarianGolden, testing::Values(kMarian, kBart, kSeparate, kMbart, kOwn),
                         [](const auto& golden) { return golden.param.folder; });

TEST_P(MarianGolden, GivesTheLogitsOfTransformers) {
  const Marian model = Marian::load(folder_);
  const Tensor logits = model.logits(batch_);
  const Tensor& expected = expected_.at("logits");  // f64
  ASSERT_EQ(logits.shape(), (Dims{expected.size(0), expected.size(1) + (GetParam().padding_left_out ? 1 : 0)}));
  double difference = 0;
  for (std::int64_t i = 0; i < expected.size(0); ++i) {
    for (std::int64_t j = 0; j < expected.size(1); ++j) {
      difference =
          std::max(difference, std::abs(double{logits.view().at<float>({i, j})} - expected.view().at<double>({i, j})));
    }
  }
  EXPECT_LT(difference, 2e-5);
  const LossSum loss = model.loss(batch_);
  EXPECT_EQ(loss.count, 12);
  EXPECT_NEAR(loss.sum, at(expected_.at("loss"), 0), 1e-4);
}

TEST_P(MarianGolden, GivesTheGradientsOfTransformers) {
  Marian model = Marian::load(folder_);
  want_gradients(model);
  EXPECT_NEAR(model.backward(batch_, {.label_smoothing = 0.1}).nll, at(expected_.at("loss"), 0), 1e-4);
  std::map<std::string, Tensor> gradients;
  model.visit([&](const std::string& name, const Parameter& own) { gradients[name] = own.gradient; });
  const std::vector<TensorName> names = marian_names(model.config()).all();
  EXPECT_EQ(names.size(), gradients.size());
  for (const TensorName& named : names) {
    std::vector<double> expected;
    for (const std::string& name : named.theirs) {
      const std::vector<double> part = test::values_of(expected_.at("gradient." + name));
      expected.insert(expected.end(), part.begin(), part.end());
    }
    EXPECT_LT(relative(test::values_of(gradients.at(named.ours)), expected), 1e-4) << named.ours;
  }
}

TEST_P(MarianGolden, TenStepsHaveTheLossesOfTorch) {
  Marian model = Marian::load(folder_);
  want_gradients(model);
  Adam adam({.beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9});
  for (std::int64_t step = 0; step < 10; ++step) {
    const LossSum loss = model.backward(batch_, {.label_smoothing = 0.1});
    const double tokens = static_cast<double>(loss.count);
    EXPECT_NEAR(loss.sum / tokens, at(expected_.at("losses"), step), 1e-4) << step;
    adam.begin_step(0.02, 1 / tokens);
    model.update([&](const std::string& name, Parameter& own) { adam.step(name, own); });
  }
}

TEST_P(MarianGolden, SavesWhatItLoads) {
  const test::TemporaryFolder folder;
  const Marian model = Marian::load(folder_);
  model.save(folder / "");
  const auto saved = read_safetensors(folder / "model.safetensors").tensors;
  const auto given = read_safetensors(folder_ + "/model.safetensors").tensors;
  ASSERT_EQ(saved.size(), given.size());
  for (const auto& [name, tensor] : given) test::expect_equal(saved.at(name), tensor);
  const Marian again = Marian::load(folder / "");
  EXPECT_EQ(again.config(), model.config());
  const auto config = nlohmann::json::parse(read_file(folder / "config.json"));
  const auto given_config = nlohmann::json::parse(read_file(folder_ + "/config.json"));
  for (const char* key : {"architectures", "model_type"})
    EXPECT_EQ(config.value(key, nlohmann::json()), given_config.value(key, nlohmann::json()));
  EXPECT_EQ(again.config().decoder_heads, 2);
  EXPECT_EQ(again.config().activation, Activation::silu);
  test::expect_equal(again.logits(batch_), model.logits(batch_));
}

// A bare BartModel, without what makes logits: its names lack a part, and the bias of the logits is 0.
TEST(Marian, OpensABareModel) {
  const test::TemporaryFolder folder;
  write_file(folder / "config.json", read_file(golden_path("bart/config.json")));
  SafeTensors content;
  for (const auto& [name, tensor] : read_safetensors(golden_path("bart/model.safetensors")).tensors) {
    if (name.starts_with("model.")) content.tensors[name.substr(6)] = tensor;
  }
  write_safetensors(folder / "model.safetensors", content);
  const PairBatch batch = batch_of(expected_of(kBart));
  const Marian whole = Marian::load(golden_path("bart")), bare = Marian::load(folder / "");
  const Tensor logits = whole.logits(batch), bare_logits = bare.logits(batch);
  whole.visit([&](const std::string& name, const Parameter& bias) {
    if (name != kLogitsBias) return;
    for (std::int64_t i = 0; i < logits.size(0); ++i) {
      for (std::int64_t j = 0; j < logits.size(1); ++j) {
        ASSERT_NEAR(bare_logits.view().at<float>({i, j}) + bias.value.data<float>()[j], logits.view().at<float>({i, j}),
                    1e-5);
      }
    }
  });
}

TEST(Marian, SavesHalfTheBytes) {
  const test::TemporaryFolder folder;
  const Marian model = Marian::load(golden_path("tiny"));
  model.save(folder / "", Dtype::bf16);
  for (const auto& [name, tensor] : read_safetensors(folder / "model.safetensors").tensors) {
    EXPECT_EQ(tensor.dtype(), Dtype::bf16) << name;
  }
  EXPECT_LT(relative(test::values_of(Marian::load(folder / "").logits(golden_batch())),
                     test::values_of(model.logits(golden_batch()))),
            0.05);  // weights of eight bits
}

// The tied table may be there under all its names.
TEST(Marian, TiesWhatIsThereTwice) {
  const test::TemporaryFolder folder;
  for (const char* name : {"config.json", "generation_config.json"}) {
    write_file(folder / name, read_file(golden_path("tiny/") + name));
  }
  SafeTensors content{.tensors = read_safetensors(golden_path("tiny/model.safetensors")).tensors};
  content.tensors["lm_head.weight"] = content.tensors.at("model.shared.weight");
  write_safetensors(folder / "model.safetensors", content);
  Marian::load(folder / "");
  content.tensors["lm_head.weight"].data<float>()[0] += 1;
  write_safetensors(folder / "model.safetensors", content);
  EXPECT_NE(test::message_of<FormatError>([&] { Marian::load(folder / ""); }).find("they are tied"), std::string::npos);
}

TEST(Marian, RefusesOtherModels) {
  const std::string config = read_file(golden_path("tiny/config.json"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = config;
    const std::size_t place = changed.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    return changed.replace(place, from.size(), to);
  };
  test::expect_refused(
      {{with("\"marian\"", "\"pegasus\""), "model_type is \"pegasus\"; the supported encoder-decoders are"},
       {with("\"swish\"", "\"tanh\""), "activation_function must be"},
       {with("\"encoder_attention_heads\": 3", "\"encoder_attention_heads\": 5"), "must divide d_model"},
       {with("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"), "tie_word_embeddings must be true"},
       {with("\"pad_token_id\": 22", "\"pad_token_id\": 23"), "pad_token_id is 23"},
       {with("\"decoder_vocab_size\": 23", "\"decoder_vocab_size\": 24"), "decoder_vocab_size is 24"},
       {with("\"d_model\": 12", "\"d_model\": 0"), "d_model is 0"},
       {with("\"vocab_size\"", "\"vocabulary\""), "vocab_size is missing"}},
      "config.json", [](const std::string& path) { Marian::load(path.substr(0, path.rfind('/'))); });
}

TEST(Marian, RefusesWhatIsNoBart) {
  const std::string config = read_file(golden_path("bart/config.json"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = config;
    return changed.replace(changed.find(from), from.size(), to);
  };
  const auto added = [&](const std::string& field) { return with("{", "{" + field + ","); };
  test::expect_refused(
      {{with("\"bart\"", "\"pegasus\""),
        "the supported encoder-decoders are \"marian\", \"bart\", \"mbart\" and \"qkv\""},
       {with("\"bart\"", "7"), "model_type"},
       {added("\"normalize_before\": true"), "normalize_before must be false"},
       {added("\"add_final_layer_norm\": true"), "add_final_layer_norm must be false"},
       {added("\"normalize_embedding\": false"), "normalize_embedding must be true"},
       {added("\"static_position_embeddings\": true"), "static_position_embeddings must be false"},
       {with("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"), "tie_word_embeddings must be true"},
       {with("\"max_position_embeddings\": 9", "\"max_position_embeddings\": 0"), "max_position_embeddings is 0"},
       {with("\"scale_embedding\": true", "\"scale_embedding\": 1"), "scale_embedding"},
       {with("\"decoder_start_token_id\": 2", "\"decoder_start_token_id\": 23"), "decoder_start_token_id is 23"}},
      "config.json", [](const std::string& path) { Marian::load(path.substr(0, path.rfind('/'))); });
  const test::TemporaryFolder folder;  // a table of other positions than the config says
  write_file(folder / "config.json", with("\"max_position_embeddings\": 9", "\"max_position_embeddings\": 10"));
  write_file(folder / "model.safetensors", read_file(golden_path("bart/model.safetensors")));
  EXPECT_NE(test::message_of<FormatError>([&] {
              Marian::load(folder / "");
            }).find("\"model.encoder.embed_positions.weight\" is [11, 12]; it must be [12, 12]"),
            std::string::npos);
}

TEST(Marian, KnowsEncoderDecoders) {
  const test::TemporaryFolder folder;
  const auto is_in = [&](const std::string& config) {
    write_file(folder / "config.json", config);
    return Marian::is_in(folder / "");
  };
  EXPECT_TRUE(is_in(R"({"model_type": "bart"})"));
  EXPECT_TRUE(is_in(R"({"model_type": "pegasus", "is_encoder_decoder": true})"));  // to be refused by load
  EXPECT_FALSE(is_in(R"({"model_type": "bert", "is_encoder_decoder": false})"));
  EXPECT_FALSE(is_in("{}"));
}

TEST(Marian, RefusesBatchesThatDoNotFit) {
  const Marian model = Marian::load(golden_path("tiny"));
  const std::vector<std::int32_t> ten(10, 1), unknown{23};
  const auto offsets = [](std::int64_t n) { return offsets_of(std::vector<std::int64_t>{n}); };
  EXPECT_NE(
      test::message_of<std::invalid_argument>([&] { model.encode(ten, offsets(10)); }).find("positions for 0 to 9"),
      std::string::npos);
  EXPECT_THROW(model.encode(unknown, offsets(1)), std::invalid_argument);
  EXPECT_THROW(model.encode(ten, offsets(9)), std::invalid_argument);
  EXPECT_EQ(model.encode({}, offsets(0)).shape(), (Dims{0, 12}));
}

MarianConfig toy_config() {
  return {.vocab = 10,
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
          .start = 9};
}

TEST(Marian, PaddingStaysZero) {
  Marian model = Marian::initial(toy_config(), 1);
  want_gradients(model);
  const PairBatch batch{.source = {1, 2, 0},
                        .target = {2, 1, 0},
                        .source_offsets = offsets_of(std::vector<std::int64_t>{3}),
                        .target_offsets = offsets_of(std::vector<std::int64_t>{3})};
  Adam adam({.weight_decay = 0.1});
  for (int step = 0; step < 3; ++step) {
    model.backward(batch, {.dropout = 0.2, .label_smoothing = 0.1, .seed = 5});
    adam.begin_step(0.01);
    model.update([&](const std::string& name, Parameter& own) { adam.step(name, own); });
  }
  model.visit([&](const std::string& name, const Parameter& own) {
    if (name == "shared.weight") {
      for (std::int64_t i = 0; i < 32; ++i) EXPECT_EQ(own.value.view().at<float>({9, i}), 0);
      EXPECT_NE(own.value.view().at<float>({1, 0}), 0);
    }
    if (name == kLogitsBias) {
      EXPECT_EQ(own.value.data<float>()[9], 0);
    }
  });
}

TEST(Marian, DropoutFollowsItsSeed) {
  const auto loss_with = [](double p, std::uint64_t seed) {
    Marian model = Marian::initial(toy_config(), 1);
    return model
        .backward({.source = {1, 2, 0},
                   .target = {2, 1, 0},
                   .source_offsets = offsets_of(std::vector<std::int64_t>{3}),
                   .target_offsets = offsets_of(std::vector<std::int64_t>{3})},
                  {.dropout = p, .seed = seed})
        .sum;
  };
  EXPECT_EQ(loss_with(0.3, 1), loss_with(0.3, 1));
  EXPECT_NE(loss_with(0.3, 1), loss_with(0.3, 2));
  EXPECT_EQ(loss_with(0, 1), loss_with(0, 2));
}

// Sources of two to five tokens; the target is the source backwards.
std::vector<TokenPair> reversed_pairs(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<TokenPair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::int32_t> tokens(2 + random.below(4));
    for (std::int32_t& token : tokens) token = 1 + static_cast<std::int32_t>(random.below(8));
    TokenPair pair{.source = tokens, .target = {tokens.rbegin(), tokens.rend()}};
    pair.source.push_back(0);
    pair.target.push_back(0);
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

class TrainedMarian : public TrainableOn<PairBatch> {
 public:
  TrainedMarian(Marian& model, double dropout) : model_(model), dropout_(dropout) {}
  void visit(const ParameterVisitor& visitor) const override { model_.visit(visitor); }
  void update(const ParameterUpdater& updater) override { model_.update(updater); }
  LossSum loss(const PairBatch& batch) const override { return model_.loss(batch); }
  LossSum backward(const PairBatch& batch, std::uint64_t seed) override {
    return model_.backward(batch, {.dropout = dropout_, .seed = seed});
  }

 private:
  Marian& model_;
  double dropout_;
};

TEST(Marian, LearnsToTurnSequencesRound) {
  const test::TemporaryFolder folder;
  Marian model = Marian::initial(toy_config(), 1);
  TrainedMarian trained(model, 0);
  const std::vector<TokenPair> pairs = reversed_pairs(4000, 1), held_out = reversed_pairs(100, 2);
  const TrainingResult result = train(trained, {.train = PairExamples(pairs), .valid = PairExamples(held_out)},
                                      {.seed = 3,
                                       .steps = 600,
                                       .batch_tokens = 600,
                                       .schedule = {.rate = 5e-3, .warmup = 60, .decay = Decay::cosine},
                                       .clip = 1,
                                       .validate_every = 100},
                                      folder / "");
  EXPECT_LT(result.best_loss, 1e-2);
}

TEST(Marian, TrainingHasTheSameBitsForAnyNumberOfThreads) {
  std::map<std::string, std::vector<double>> expected;
  const std::vector<TokenPair> pairs = reversed_pairs(600, 1), held_out = reversed_pairs(20, 2);
  for (const int threads : {1, 2, 3}) {
    set_threads(threads);
    const test::TemporaryFolder folder;
    Marian model = Marian::initial(toy_config(), 1);
    TrainedMarian trained(model, 0.1);
    train(trained, {.train = PairExamples(pairs), .valid = PairExamples(held_out)},
          {.seed = 3, .steps = 8, .batch_tokens = 2000, .clip = 1, .validate_every = 4, .average = 2}, folder / "");
    model.visit([&](const std::string& name, const Parameter& own) {
      const std::vector<double> values = test::values_of(own.value);
      if (threads == 1) expected[name] = values;
      EXPECT_EQ(values, expected.at(name)) << name << " on " << threads;
    });
  }
  set_threads(0);
}

}  // namespace
}  // namespace qkv
