// What users ask for by name ends wherever it is asked to stop: reading of folders, embedding, translating, looking at
// pictures, explaining. Afterwards it gives what it gave before.
#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "qkv/explain/explain.h"
#include "qkv/files.h"
#include "qkv/models/vit.h"
#include "qkv/pipelines/embedder.h"
#include "qkv/pipelines/generator.h"
#include "qkv/pipelines/translator.h"
#include "stop_for_test.h"

namespace qkv {
namespace {

using test::expect_stops;

const std::string kGoldenFolders = QKV_TEST_DATA "/golden/";

TEST(PipelinesStop, InEmbedding) {
  const std::string folder = kGoldenFolders + "encoders/roberta";
  expect_stops([&] { Embedder::load(folder); });
  const Embedder embedder = Embedder::load(folder);
  const std::vector<std::string> texts(20, "a text of some words, and one more");
  const auto embed = [&] { return embedder.embed(texts, {.threads = 1}); };
  const Tensor before = embed();
  expect_stops(embed);
  EXPECT_GE(test::questions_of(embed), 20);
  std::stop_source source;
  source.request_stop();
  for (const int threads : {1, 3}) {
    EXPECT_THROW(embedder.embed(texts, {.threads = threads, .stop = source.get_token()}), Stopped);
    EXPECT_TRUE(testing::same_bits(embedder.embed(texts, {.threads = threads}), before));
  }
}

TEST(PipelinesStop, InTranslation) {
  const std::string folder = kGoldenFolders + "translate/relu";
  expect_stops([&] { Translator::load(folder); });
  const Translator translator = Translator::load(folder);
  const std::vector<std::vector<std::int32_t>> sources{{5, 6, 7, 0}, {8, 9, 0}};
  const auto generate = [&](const TranslateOptions& options) { return translator.generate(sources, options); };
  const auto before = generate({.beams = 3, .max_length = 12, .threads = 1});
  expect_stops([&] { generate({.beams = 3, .max_length = 12, .threads = 1}); });
  std::stop_source source;
  source.request_stop();
  EXPECT_THROW(generate({.max_length = 12, .threads = 2, .stop = source.get_token()}), Stopped);
  const auto after = generate({.beams = 3, .max_length = 12, .threads = 2});
  for (std::size_t i = 0; i < sources.size(); ++i) EXPECT_EQ(after[i][0].tokens, before[i][0].tokens);
}

TEST(PipelinesStop, InGenerating) {
  const std::string folder = kGoldenFolders + "language/llama";
  expect_stops([&] { Generator::load(folder); });
  const Generator generator = Generator::load(folder);
  const std::vector<std::vector<std::int32_t>> prompts{{5, 6, 7, 0}, {8}};
  const auto generate = [&](const GeneratorOptions& options) { return generator.generate_ids(prompts, options); };
  const auto before = generate({.max_new_tokens = 12, .threads = 1});
  expect_stops([&] { generate({.max_new_tokens = 12, .threads = 1}); });
  std::stop_source source;
  source.request_stop();
  EXPECT_THROW(generate({.max_new_tokens = 12, .threads = 2, .stop = source.get_token()}), Stopped);
  const auto after = generate({.max_new_tokens = 12, .threads = 2});
  for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(after[i][0].ids, before[i][0].ids);
}

TEST(PipelinesStop, InVisionTransformers) {
  const std::string folder = kGoldenFolders + "vit/vit";
  expect_stops([&] { Vit::load(folder); });
  const Vit model = Vit::load(folder);
  const Tensor pictures = read_safetensors(folder + ".safetensors").tensors.at("pictures_0");
  const Tensor before = model.logits(pictures, {.threads = 1});
  expect_stops([&] { model.logits(pictures, {.threads = 1}); });
  const test::TemporaryFolder saved;
  expect_stops([&] { model.save(saved / ""); });
  EXPECT_TRUE(testing::same_bits(model.logits(pictures), before));
}

TEST(PipelinesStop, InExplanations) {
  ExplainInput input;
  const SyntheticInput synthetic{.inputs = 40, .dim = 8};
  expect_stops([&] {
    ExplainInput own;
    generate_missing(own, synthetic);
  });
  generate_missing(input, synthetic);
  const Explanation explanation = explain(input);
  expect_stops([&] { explain(input); });
  expect_stops([&] { to_text(explanation, {.color = false}); });
  expect_stops([&] { to_json(explanation); });
}

}  // namespace
}  // namespace qkv
