// Training encoders on pairs that belong together: the losses and weights of torch (tests/golden/sentence_training), in
// chunks or not; that it learns and resumes, and that its folder embeds.
#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/models/sentence_encoder.h"
#include "qkv/pipelines/embedder.h"
#include "qkv/train/train_files.h"
#include "train/data/labelled_texts.h"
#include "train/text_files.h"
#include "train/trained_files.h"
#include "train/watcher.h"

namespace qkv {
namespace {

using WeightFiles = std::map<std::string, Tensor>;

TokenBatch side_of(const WeightFiles& golden, const std::string& side) {
  const Tensor& ids = golden.at(side + "_ids");
  TokenBatch batch{{ids.data<std::int32_t>(), ids.data<std::int32_t>() + ids.element_count()}, {}, {}};
  batch.types.resize(batch.ids.size());
  batch.offsets = Tensor::copy(golden.at(side + "_offsets").view());
  return batch;
}

// 20 steps of plain gradient descent, all texts at once and two at a time.
TEST(SentenceTraining, LossesAndWeightsAreThoseOfTorch) {
  for (const auto& [name, pooling] :
       {std::pair{"bert", SentencePooling::mean}, std::pair{"mpnet", SentencePooling::first}}) {
    for (const std::int64_t chunk : {0, 2}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(chunk));
      const std::string folder = QKV_TEST_DATA "/golden/sentence_training/" + std::string(name);
      const WeightFiles golden = read_safetensors(folder + ".safetensors").tensors;
      const SentencePairs batch{side_of(golden, "first"), side_of(golden, "second")};
      SentenceEncoder model(TextEncoder::load(folder), pooling);
      model.update([](const std::string&, Parameter& own) { own.want_gradient(); });
      for (std::int64_t step = 0; step < 20; ++step) {
        const LossSum before = model.loss(batch), sum = model.backward(batch, {.chunk = chunk});
        EXPECT_EQ(before.nll, sum.nll);
        EXPECT_EQ(before.metric, sum.metric);
        EXPECT_EQ(sum.count, 5);
        const double scale = 1 / static_cast<double>(sum.count), wanted = golden.at("losses").data<double>()[step];
        EXPECT_NEAR(sum.sum * scale, wanted, 1e-5 * std::max(1.0, wanted)) << step;
        model.update([&](const std::string&, Parameter& own) {
          for (std::int64_t i = 0; i < own.value.element_count(); ++i) {
            own.value.data<float>()[i] -= static_cast<float>(0.005 * scale) * own.gradient.data<float>()[i];
          }
          own.want_gradient();
        });
      }
      const test::TemporaryFolder out;
      model.save(out / "", folder, 18);
      const WeightFiles saved = read_safetensors(out / "model.safetensors").tensors;
      EXPECT_EQ(std::ranges::count_if(golden, [](const auto& each) { return each.first.starts_with("after/"); }),
                std::ssize(saved));
      for (const auto& [key, value] : saved) {
        EXPECT_LE(test::largest_difference(value, golden.at("after/" + key)), 1e-5) << key;
      }
    }
  }
}

TEST(SentenceTraining, WhatDoesNotFitIsRefused) {
  const std::string folder = QKV_TEST_DATA "/golden/sentence_training/bert";
  SentenceEncoder model(TextEncoder::load(folder), SentencePooling::mean);
  const WeightFiles golden = read_safetensors(folder + ".safetensors").tensors;
  const SentencePairs pairs{side_of(golden, "first"), side_of(golden, "second")};
  TokenBatch fewer = side_of(golden, "first");
  fewer.offsets = Tensor::copy(fewer.offsets.view().slice(0, 0, 5));
  fewer.ids.resize(30);
  fewer.types.resize(30);
  const auto refusal = [](const auto& call) { return test::message_of<std::invalid_argument>(call); };
  EXPECT_EQ(refusal([&] { model.loss({fewer, pairs.second}); }), "sentence_encoder: 4 texts for 5 partners");
  EXPECT_EQ(refusal([&] { model.backward(pairs, {.temperature = 0}); }),
            "sentence_encoder: the temperature is 0; it must be above 0");
  EXPECT_EQ(refusal([&] { model.backward(pairs, {.chunk = -1}); }),
            "sentence_encoder: chunks are of -1 texts; at least 0 is needed");
}

class SentenceFiles : public test::TrainedFiles {
 protected:
  SentenceFiles() { files_ = test::tiny_sentences(folder_); }
};

TEST_F(SentenceFiles, LearnsAndItsFolderEmbeds) {
  test::Watcher watcher;
  train_files(files_, {.observer = &watcher});
  EXPECT_LT(watcher.validations.back().loss, watcher.validations.front().loss);
  EXPECT_EQ(watcher.validations.back().metric->name, "accuracy");
  const Embedder embedder = Embedder::load(files_.out);
  const Tensor vectors = embedder.embed(std::vector<std::string>{"w1 w1", "w2", "w4 w4"});
  const auto cosine = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t e = 0; e < 12; ++e) {
      sum += static_cast<double>(vectors.data<float>()[a * 12 + e]) *
             static_cast<double>(vectors.data<float>()[b * 12 + e]);
    }
    return sum;
  };
  EXPECT_NEAR(cosine(0, 0), 1, 1e-6);
  EXPECT_GT(cosine(0, 1), cosine(2, 1));
}

TEST_F(SentenceFiles, PairsOfAllLengthsShareABatch) {
  const Tokenizer tokenizer =
      Tokenizer::load(files_.from + "/tokenizer.json", TextEncoder::read_config(files_.from).vocab);
  const std::string path = folder_.put("lengths.tsv", "w1\tw2\nw1 w2 w3 w1 w2 w3 w1 w2 w3 w1\tw4\n");
  const training::SentenceExamples pairs(training::read_labelled_texts(path, {.second = true, .label = false}, {}, {}),
                                         tokenizer, 16);
  ASSERT_EQ(pairs.count(), 2);
  EXPECT_EQ(pairs.size(0).length, pairs.size(1).length);
  EXPECT_EQ(pairs.size(1).cost, 1);
}

TEST_F(SentenceFiles, HasTheSameBitsOnAnyThreadsAndAfterAnInterruption) { expect_same_bits({25}); }

TEST_F(SentenceFiles, PairsInTheWrongNumberAreRefused) {
  files_.valid = folder_.put("bad.tsv", "w1\tw2\nw1\n");
  const auto refusal = [&] { return test::message_of<FormatError>([&] { train_files(files_); }); };
  test::expect_contains(refusal(), "bad.tsv: line 2 has 1 column; it must be a text, a tab and a text");
  files_.valid = folder_.put("bad.csv", "text,label\nw1,w2\n");
  test::expect_contains(refusal(), "bad.csv: line 1 names no column \"second\"");
}

}  // namespace
}  // namespace qkv
