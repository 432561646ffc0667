// From pairs and a config to a folder that opens again.
#include "qkv/train/train_translator.h"

#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/models/transformer_encoder_decoder.h"
#include "qkv/pipelines/translator.h"
#include "qkv/target.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/train_tokenizer.h"
#include "qkv/threads.h"
#include "train/data/training_pairs.h"
#include "train/translator_files.h"
#include "train/watcher.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

using test::edited;
using test::expect_contains;
using test::expect_refusal;
using test::Stopper;
using test::Watcher;
using Invalid = std::invalid_argument;

// Twelve updates, validated at 4, 8 and 12.
class TrainTranslator : public ::testing::Test {
 protected:
  TrainTranslator() { configure(config_); }

  // With one change of the config.
  void configure(const std::string& from, const std::string& to) { configure(edited(config_, from, to)); }
  void configure(const std::string& config) { files_.config = folder_.put("config.json", config); }

  std::string weights() const { return test::slurp(files_.out + "/model.safetensors"); }
  // What a training into another folder ends with.
  std::string weights_of_training_into(const std::string& out) {
    files_.out = folder_ / out;
    train_translator(files_);
    return weights();
  }
  // Contents of all files of the training by name; a lock holds nothing.
  std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> files;
    if (!fs::exists(files_.out)) return files;
    for (const auto& entry : fs::recursive_directory_iterator(files_.out)) {
      if (entry.is_regular_file()) files[entry.path()] = test::slurp(entry.path());
    }
    return files;
  }

  const test::TemporaryFolder folder_;
  TrainTranslatorFiles files_ = test::tiny_training(folder_);
  const std::string config_ = edited(edited(test::kTinyConfig, "\"steps\": 30", "\"steps\": 12"),
                                     "\"validate_every\": 10", "\"validate_every\": 4");
};

std::string trained_tokenizer(const std::string& text, std::int64_t vocab) {
  TokenizerTrainer trainer;
  for (int i = 0; i < 9; ++i) trainer.add(text);
  return trainer.train(vocab);
}

// A tokenizer.json of as many tokens as another, with other pieces.
std::string other_tokenizer(const std::string& json) {
  return trained_tokenizer("Otherwise, the quick brown fox jumps over a lazy dog.", Tokenizer::parse(json, "").vocab());
}

// Both sides end with the end token, once.
TEST(TrainingPairs, ThatAreTooLongAreLeftOutOrTruncated) {
  const Tokenizer tokenizer = Tokenizer::parse(trained_tokenizer("one two three four", 280), "");
  const training::SideTokens side{tokenizer, tokenizer.id_of("</s>").value()};
  const auto ids = tokenizer.encode("one two three four").ids;
  ASSERT_EQ(ids.size(), 5u);
  const io::PairLines texts{.pairs = {{"one two three four", "one"}, {"one", "one two three four"}, {"one", "two"}}};
  std::vector<std::string> notices;
  const auto encode = [&](std::int64_t most, training::LongPairs long_pairs) {
    training::TrainConfig config;
    config.max_length = most;
    config.long_pairs = long_pairs;
    return encode_pairs(texts, side, side, config, "p", [&](const std::string& text) { notices.push_back(text); });
  };
  const auto whole = encode(5, training::LongPairs::leave_out);
  EXPECT_TRUE(notices.empty());
  EXPECT_EQ(whole[0].source, ids);
  const auto few = encode(4, training::LongPairs::leave_out), cut = encode(4, training::LongPairs::truncate);
  ASSERT_EQ(few.size(), 1u);
  EXPECT_EQ(few[0].target, whole[2].target);
  ASSERT_EQ(cut.size(), 3u);
  EXPECT_EQ(cut[0].source, (std::vector<std::int32_t>{ids[0], ids[1], ids[2], side.end}));
  EXPECT_EQ(cut[1].target, cut[0].source);
  EXPECT_EQ(cut[0].target, whole[0].target);
  EXPECT_EQ(notices, (std::vector<std::string>{"p: 2 of 3 pairs have more than 4 tokens on a side and are left out",
                                               "p: 2 of 3 pairs have more than 4 tokens on a side and are truncated"}));
}

TEST_F(TrainTranslator, WritesAFolderThatOpens) {
  EXPECT_EQ(train_translator(files_).step, 12);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(files_.out)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (std::vector<std::string>{"checkpoints", "config.json", "generation_config.json", "log.jsonl", "loss.svg",
                                      "model.safetensors", "tokenizer.json", "tokenizer_config.json"}));
  const TransformerEncoderDecoder model = TransformerEncoderDecoder::load(files_.out);
  const Tokenizer tokenizer = Tokenizer::load(files_.out + "/tokenizer.json");
  EXPECT_EQ(model.config().vocab, tokenizer.vocab());
  EXPECT_EQ(model.config().end, tokenizer.id_of("</s>"));
  EXPECT_EQ(model.config().start, tokenizer.id_of("<pad>"));
  EXPECT_EQ(model.config().padding, tokenizer.vocab() - 1);
  expect_contains(test::slurp(files_.out + "/tokenizer_config.json"), "\"PreTrainedTokenizerFast\"");
}

TEST_F(TrainTranslator, ASecondCallChangesNothing) {
  train_translator(files_);
  const std::string before = weights();
  fs::remove(files_.out + "/model.safetensors");
  Watcher watcher;
  train_translator(files_, {.observer = &watcher});
  EXPECT_EQ(weights(), before);
  ASSERT_EQ(watcher.notices.size(), 1u);
  expect_contains(watcher.notices[0], "resuming from");
  // Without checkpoints it would be another training, which overwrites no model.
  fs::remove_all(files_.out + "/checkpoints");
  const auto all = snapshot();
  expect_refusal<Invalid>([&] { train_translator(files_); }, "already exists");
  EXPECT_EQ(snapshot(), all);
}

TEST_F(TrainTranslator, TakesATokenizerThatIsGiven) {
  train_translator(files_);
  files_.tokenizer = folder_.put("given.json", test::slurp(files_.out + "/tokenizer.json"));
  const std::string before = weights();
  EXPECT_EQ(weights_of_training_into("other"), before);
  EXPECT_EQ(test::slurp(files_.out + "/tokenizer.json"), test::slurp(files_.tokenizer));
}

TEST_F(TrainTranslator, BeginsWithAModel) {
  const TrainingResult first = train_translator(files_);
  files_.from = files_.out;
  files_.out = folder_ / "further";
  EXPECT_LT(train_translator(files_).best_loss, first.best_loss);
  EXPECT_EQ(test::slurp(files_.out + "/tokenizer.json"), test::slurp(files_.from + "/tokenizer.json"));

  configure("\"dropout\"", "\"activation\": \"gelu\", \"dropout\"");
  files_.out = folder_ / "gelu";
  EXPECT_THROW(train_translator(files_), FormatError);
}

TEST_F(TrainTranslator, ARefusalChangesNothing) {
  train_translator(files_);
  const auto before = snapshot();
  TrainTranslatorFiles given = files_, data = files_;
  given.tokenizer = folder_.put("other.json", other_tokenizer(before.at(files_.out + "/tokenizer.json")));
  data.train = folder_.put("other.tsv", test::pairs_of_words(61));
  for (const auto& [other, fragment] : {std::pair(given, "tokenizer "), {data, "training data "}}) {
    expect_refusal<Invalid>([&] { train_translator(other); }, fragment);
    EXPECT_EQ(snapshot(), before);
  }
  for (const auto& [from, to, fragment] :
       {std::array<std::string, 3>{"0.01", "0.02", "(rate 0.01 -> 0.02)"},
        {"\"dropout\": 0.1", "\"dropout\": 0.2", "(dropout 0.1 -> 0.2)"},
        {"\"label_smoothing\": 0.1", "\"label_smoothing\": 0", "(label_smoothing 0.1 -> 0)"},
        {"\"heads\": 2", "\"heads\": 4", "(decoder heads 2 -> 4, encoder heads 2 -> 4)"}}) {
    configure(from, to);
    expect_refusal<Invalid>([&] { train_translator(files_); }, fragment);
    EXPECT_EQ(snapshot(), before);
  }
  configure("{");
  EXPECT_THROW(train_translator(files_), FormatError);
  EXPECT_EQ(snapshot(), before);
}

TEST_F(TrainTranslator, ARefusalBesideARunningTrainingChangesNothing) {
  const std::string expected = weights_of_training_into("first");
  TrainTranslatorFiles other = files_;
  other.train = folder_.put("other.tsv", test::pairs_of_words(61));
  other.tokenizer = folder_.put("other.json", other_tokenizer(test::slurp(files_.out + "/tokenizer.json")));
  other.out = files_.out = folder_ / "second";
  Watcher watcher;
  watcher.on_step = [&](const TrainingProgress& progress) {
    if (progress.step != 2 && progress.step != 10) return;  // before and behind the first validation
    const auto before = snapshot();
    expect_refusal<IoError>([&] { train_translator(other); }, "another process");
    EXPECT_EQ(snapshot(), before);
  };
  train_translator(files_, {.observer = &watcher});
  EXPECT_EQ(weights(), expected);
}

// Whoever reads the folder while it is trained finds the best model so far, whole.
TEST_F(TrainTranslator, TheFolderIsAModelFromTheFirstValidationOn) {
  Watcher watcher;
  int reads = 0;
  watcher.on_step = [&](const TrainingProgress& progress) {
    if (progress.step != 4 && progress.step != 5) return;
    EXPECT_EQ(fs::exists(files_.out + "/model.safetensors"), progress.step > 4);
    if (progress.step == 4) return;
    ++reads;
    Translator::load(files_.out).translate("one two");
    TrainTranslatorFiles further = files_;
    further.from = files_.out;
    further.out = folder_ / "further";
    EXPECT_EQ(train_translator(further).step, 12);
  };
  train_translator(files_, {.observer = &watcher});
  EXPECT_EQ(reads, 1);
}

TEST_F(TrainTranslator, DivergenceLeavesTheBestModel) {
  configure("0.01", "1e38");
  EXPECT_THROW(train_translator(files_), Invalid);
  EXPECT_FALSE(fs::exists(files_.out + "/tokenizer.json"));  // nor anything that shows in the next training
  configure(config_);
  EXPECT_THROW(train_translator(files_, Stopper(6).options()), Stopped);
  const std::string best = weights();
  ASSERT_FALSE(best.empty());
  configure("0.01", "1e38");
  EXPECT_THROW(train_translator(files_, {.change = true}), Invalid);
  EXPECT_EQ(weights(), best);
  configure(config_);
  train_translator(files_);
  const std::string after = weights();
  EXPECT_EQ(weights_of_training_into("alone"), after);
}

// The output's type is none of the weights'.
TEST_F(TrainTranslator, WritesAnotherTypeOfTheSameWeights) {
  train_translator(files_);
  const std::size_t before = weights().size();
  configure("\"dropout\"", "\"dtype\": \"f16\",   \"dropout\"");
  train_translator(files_);
  EXPECT_LT(weights().size(), before * 6 / 10);
  expect_contains(test::slurp(files_.out + "/config.json"), "float16");
}

// On any number of threads, on every target with fused multiply-add, and cut off and resumed; weights are those of f32,
// not numbers that bf16 holds.
TEST_F(TrainTranslator, ReducedHasTheSameBitsHoweverItIsCut) {
  const std::string exact = weights_of_training_into("exact");
  configure("\"steps\"", "\"precision\": \"reduced\", \"steps\"");
  const std::string whole = weights_of_training_into("whole");
  EXPECT_NE(whole, exact);
  for (const Target& target : targets()) {
    if (!target.usable || !target.fused) continue;
    select_target(target.name);
    set_threads(target.selected ? 3 : 1);
    EXPECT_EQ(weights_of_training_into(target.name), whole) << target.name;
  }
  set_threads(0);
  select_target("");
  files_.out = folder_ / "cut";
  for (const int step : {3, 7}) EXPECT_THROW(train_translator(files_, Stopper(step).options()), Stopped);
  train_translator(files_);
  EXPECT_EQ(weights(), whole);
  for (const auto& [name, tensor] : read_safetensors(files_.out + "/model.safetensors").tensors) {
    if (!name.ends_with("fc1.weight")) continue;
    EXPECT_NE(convert(convert(tensor, Dtype::bf16), Dtype::f32).data<float>()[0], tensor.data<float>()[0]) << name;
  }
}

}  // namespace
}  // namespace qkv
