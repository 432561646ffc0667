// Training language models: the losses and gradients of torch (tests/golden/language_training), texts as documents,
// that it learns and resumes, what its folder is, what it refuses.
#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/models/language_model.h"
#include "qkv/pipelines/generator.h"
#include "qkv/train/adam.h"
#include "qkv/train/train_files.h"
#include "train/config/language_config.h"
#include "train/data/documents.h"
#include "train/language_files.h"
#include "train/trained_files.h"
#include "train/watcher.h"

namespace qkv {
namespace {

struct GoldenSteps {
  explicit GoldenSteps(const std::string& name)
      : folder(QKV_TEST_DATA "/golden/language_training/" + name),
        tensors(read_safetensors(folder + ".safetensors").tensors),
        batch{.ids = integers("ids"),
              .offsets = Tensor::copy(tensors.at("offsets").view()),
              .labels = integers("targets")} {}

  std::vector<std::int32_t> integers(const std::string& name) const {
    const Tensor& all = tensors.at(name);
    return {all.data<std::int32_t>(), all.data<std::int32_t>() + all.element_count()};
  }

  std::string folder;
  std::map<std::string, Tensor> tensors;
  TokenLabels batch;
};

TEST(LanguageTraining, LossesAndGradientsAreThoseOfTorch) {
  for (const char* name : {"llama", "gpt2"}) {
    SCOPED_TRACE(name);
    const GoldenSteps golden(name);
    LanguageModel model = LanguageModel::load(golden.folder);
    model.update([](const std::string&, Parameter& own) { own.want_gradient(); });
    Adam adam({});
    for (std::int64_t step = 0; step < 20; ++step) {
      const LossSum before = model.loss(golden.batch), sum = model.backward(golden.batch, {});
      EXPECT_EQ(before.nll, sum.nll);
      EXPECT_EQ(sum.count, 30);
      const double scale = 1 / static_cast<double>(sum.count);
      EXPECT_NEAR(sum.sum * scale, golden.tensors.at("losses").data<double>()[step], 1e-5) << step;
      std::size_t compared = 0;
      if (step == 0) {
        model.visit([&](const std::string& weight, const Parameter& own) {
          const Tensor& wanted = golden.tensors.at("gradient." + weight);
          double largest = 0, apart = 0;
          for (std::int64_t i = 0; i < wanted.element_count(); ++i) {
            const double value = static_cast<double>(wanted.data<float>()[i]);
            largest = std::max(largest, std::abs(value));
            apart = std::max(apart, std::abs(scale * static_cast<double>(own.gradient.data<float>()[i]) - value));
          }
          EXPECT_LE(apart, 1e-5 * largest) << weight;
          ++compared;
        });
        EXPECT_EQ(compared + 4, golden.tensors.size());  // ids, targets, offsets, losses
      }
      adam.begin_step(0.01, scale);
      model.update([&](const std::string& weight, Parameter& own) { adam.step(weight, own); });
    }
  }
}

// By hand: tokens 0 to 6 of one document and two of another, in windows of four that begin three apart.
TEST(DocumentExamples, EachTokenButTheFirstIsATargetOnce) {
  const training::DocumentExamples cut({{0, 1, 2, 3, 4, 5, 6}, {7, 8}}, 40, 4, 3);
  EXPECT_EQ(cut.count(), 3);
  EXPECT_EQ(cut.bytes(), 40);
  EXPECT_EQ(cut.size(0).cost, 3);
  EXPECT_EQ(cut.size(2).cost, 1);
  const TokenLabels batch = cut.collect(std::vector<std::uint32_t>{2, 1, 0});
  EXPECT_EQ(batch.ids, (std::vector<std::int32_t>{7, 3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(batch.labels, (std::vector<std::int32_t>{8, 4, 5, 6, 1, 2, 3}));
  const std::int32_t* offsets = batch.offsets.data<std::int32_t>();
  EXPECT_EQ(std::vector(offsets, offsets + 4), (std::vector<std::int32_t>{0, 1, 4, 7}));

  const training::DocumentExamples scored({{0, 1, 2, 3, 4, 5, 6}}, 40, 4, 2);
  EXPECT_EQ(scored.count(), 3);
  const TokenLabels second = scored.collect(std::vector<std::uint32_t>{1});
  EXPECT_EQ(second.ids, (std::vector<std::int32_t>{2, 3, 4}));
  EXPECT_EQ(second.labels, (std::vector<std::int32_t>{-1, 4, 5}));
  EXPECT_NE(cut.checksum(), training::DocumentExamples({{0, 1, 2, 3, 4, 5, 6}, {7, 9}}, 40, 4, 3).checksum());
}

class LanguageFiles : public test::TrainedFiles {
 protected:
  LanguageFiles() { files_ = test::tiny_language(folder_); }
  std::string refusal(const std::string& text) {
    files_.train = folder_.put("bad.txt", text);
    std::string message = test::message_of<FormatError>([&] { train_files(files_); });
    EXPECT_FALSE(std::filesystem::exists(files_.out));
    return message.substr(message.find("bad.txt"));
  }
};

TEST_F(LanguageFiles, DocumentsAreSeparatedByBlankLines) {
  const std::string path = folder_.put("x.txt", "one\r\ntwo\n\nthree\n \t\nfour");
  const auto found = training::read_documents(path, {}, {});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].text, "one\ntwo");
  EXPECT_EQ(found[1].text, "three");
  EXPECT_EQ(found[2].text, "four");
  EXPECT_EQ(found[2].line, 6);
}

TEST_F(LanguageFiles, WhatBreaksARuleIsRefused) {
  EXPECT_EQ(refusal("a\n\n\nb\n"), "bad.txt: line 3 is blank: an empty document");
  EXPECT_EQ(refusal("\na\n"), "bad.txt: line 1 is blank: an empty document");
  test::expect_contains(refusal("a\n\nb\xff\n"), "bad.txt: line 3");
  EXPECT_EQ(refusal("a\nb </s> c\n"), "bad.txt: line 2 holds the special token </s>");
  files_.config = folder_.put("refuse.json", test::edited(test::kTinyLanguage, "\"cut\"", "\"refuse\""));
  test::expect_contains(refusal("a\n\n" + test::counting(40)),
                        " tokens, more than max_length, 24; training.long_texts \"cut\" splits it");
  files_.train = folder_.put("none.txt", "");
  test::expect_refusal<std::invalid_argument>([&] { train_files(files_); }, "the train data has no documents");
}

TEST_F(LanguageFiles, ConfigsAreRefusedByKey) {
  for (const auto& [from, to, message] : std::vector<std::array<std::string, 3>>{
           {"\"language\"", "\"speech\"", "kind must be one of language, classes, pairs, tokens, masked, contrast"},
           {"\"kind\"", "\"knid\"", "knid is unknown; known are model, tokenizer, training"},
           {"\"heads\": 2", "\"heads\": 3", "model.heads is 3, must divide model_dim, 16, into even parts"},
           {"\"heads\": 2", "\"heads\": 16", "model.heads is 16, must divide model_dim, 16, into even parts"},
           {"\"kv_heads\": 1", "\"kv_heads\": 3", "model.kv_heads is 3, must divide heads, 2"},
           {"\"steps\": 30, ", "", "training must have steps or epochs above 0"},
           {"\"steps\": 30", "\"steps\": 30, \"max_length\": 25",
            "training.max_length is 25, must be at most model.positions, 24"}}) {
    files_.config = folder_.put("config.json", test::edited(test::kTinyLanguage, from, to));
    EXPECT_EQ(test::message_of<FormatError>([&] { train_files(files_); }), files_.config + ": " + message);
  }
}

// The folder opens as a generator, whose score of the same texts is what the validation measured.
TEST_F(LanguageFiles, LearnsAndItsFolderWrites) {
  test::Watcher watcher;
  const TrainingResult result = train_files(files_, {.observer = &watcher});
  ASSERT_EQ(watcher.validations.size(), 3u);
  const Validation &first = watcher.validations.front(), &last = watcher.validations.back();
  EXPECT_LT(last.loss, first.loss);
  EXPECT_TRUE(last.best);
  EXPECT_EQ(result.step, 30);
  const Generator generator = Generator::load(files_.out);
  std::vector<std::string> texts;
  std::int64_t bytes = 0;
  double log_probability = 0;
  for (const auto& document : training::read_documents(files_.valid, {}, {})) texts.push_back(document.text);
  for (const ScoredText& scored : generator.score(texts)) {
    bytes += scored.bytes;
    log_probability += scored.log_probability;
  }
  EXPECT_NEAR(*last.bits_per_byte, -log_probability / std::numbers::ln2 / static_cast<double>(bytes), 1e-6);
  test::expect_contains(test::slurp(files_.out + "/log.jsonl"), "\"bits_per_byte\":");
  EXPECT_EQ(generator.generate("one two", {.max_new_tokens = 3}).ids.size(), 3u);
  EXPECT_EQ(generator.prompt_ids("one").front(), 0);
}

TEST_F(LanguageFiles, HasTheSameBitsOnAnyThreadsAndAfterAnInterruption) { expect_same_bits({7, 25}); }

TEST_F(LanguageFiles, BeginsWithAModel) {
  const TrainingResult first = train_files(files_);
  files_.from = files_.out;
  files_.out = folder_ / "further";
  EXPECT_LT(train_files(files_).best_loss, first.best_loss);
  files_.config = folder_.put("other.json", test::edited(test::kTinyLanguage, "\"layers\": 1", "\"layers\": 2"));
  files_.out = folder_ / "other";
  test::expect_refusal<FormatError>([&] { train_files(files_); }, "/config.json: differs from ");
}

}  // namespace
}  // namespace qkv
