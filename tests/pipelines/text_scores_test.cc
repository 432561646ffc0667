// How probable a language model finds texts: each token beside transformers, windows of long texts, refusals.
#include "models/models_for_test.h"
#include "qkv/pipelines/generator.h"

namespace qkv::test {
namespace {

const std::string kFolder = golden_path("language/gpt2");

const nlohmann::json& golden_scores() {
  static const auto scores = nlohmann::json::parse(slurp(golden_path("language/scores.json")));
  return scores;
}

// The folder, and the same with a tokenizer that puts token 0 before each text.
TEST(TextScores, TokensAreAsProbableAsInTransformers) {
  const GoldenCopy beginning("language/gpt2");
  auto tokenizer = nlohmann::json::parse(slurp(beginning / "tokenizer.json"));
  const nlohmann::json first{{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}};
  const nlohmann::json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {first, text}},
      {"pair", {first, text}},
      {"special_tokens", {{"<|endoftext|>", {{"id", "<|endoftext|>"}, {"ids", {0}}, {"tokens", {"<|endoftext|>"}}}}}}};
  beginning.put("tokenizer.json", tokenizer.dump());
  for (const bool begins : {false, true}) {
    const Generator generator = Generator::load(begins ? beginning / "" : kFolder);
    std::vector<std::string> texts;
    std::vector<nlohmann::json> wanted;
    for (const nlohmann::json& one : golden_scores()) {
      if (one.at("begin").empty() == begins) continue;
      wanted.push_back(one);
      texts.push_back(one.at("text"));
    }
    const std::vector<ScoredText> found = generator.score(texts);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(texts[i]);
      EXPECT_EQ(found[i].ids, wanted[i].at("ids").get<std::vector<std::int32_t>>());
      ASSERT_EQ(found[i].tokens.size(), wanted[i].at("tokens").size());
      for (std::size_t at = 0; at < found[i].tokens.size(); ++at) {
        const nlohmann::json& token = wanted[i].at("tokens")[at];
        EXPECT_NEAR(found[i].tokens[at].log_probability, token[0].get<double>(), 1e-4) << at;
        EXPECT_EQ(found[i].tokens[at].rank, token[1].get<std::int64_t>()) << at;
      }
      EXPECT_EQ(found[i].bytes, wanted[i].at("bytes"));
      EXPECT_NEAR(found[i].bits_per_byte, wanted[i].at("bits_per_byte").get<double>(), 1e-5);
    }
  }
}

TEST(TextScores, TheSameAloneAndOnAnyNumberOfThreads) {
  const Generator generator = Generator::load(kFolder);
  std::vector<std::string> texts;
  for (const nlohmann::json& one : golden_scores()) {
    if (one.at("begin").empty()) texts.push_back(one.at("text"));
  }
  const std::vector<ScoredText> together = generator.score(texts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (const int threads : {1, 3}) {
      const ScoredText alone = generator.score(std::span(&texts[i], 1), {.threads = threads}).front();
      EXPECT_EQ(alone.log_probability, together[i].log_probability) << texts[i];
    }
  }
}

// A model that finds every token as probable as every other: logarithms by hand, and ranks in the order of ids.
TEST(TextScores, AModelThatKnowsNothing) {
  const GoldenCopy flat("language/gpt2");
  SafeTensors file = read_safetensors(flat / "model.safetensors");
  for (const char* name : {"transformer.ln_f.weight", "transformer.ln_f.bias"}) {
    Tensor& tensor = file.tensors.at(name);
    tensor = Tensor::zeros(tensor.shape());
  }
  write_safetensors(flat / "model.safetensors", file);
  const Generator generator = Generator::load(flat / "");
  const std::string text = "The cat sat";
  const ScoredText found = generator.score(std::span(&text, 1)).front();
  for (std::size_t i = 0; i < found.tokens.size(); ++i) {
    EXPECT_NEAR(found.tokens[i].log_probability, -std::log(300.0), 1e-12);
    EXPECT_EQ(found.tokens[i].rank, found.ids[i + 1] + 1);
  }
  EXPECT_NEAR(found.perplexity, 300, 1e-9);
  EXPECT_NEAR(found.bits_per_byte, static_cast<double>(found.tokens.size()) * std::log2(300.0) / 8, 1e-12);
}

TEST(TextScores, WhatDoesNotFitIsRefused) {
  const Generator generator = Generator::load(kFolder);
  const auto refused = [](const Generator& model, const std::vector<std::string>& texts) {
    return message_of<std::invalid_argument>([&] { model.score(texts); });
  };
  EXPECT_EQ(refused(generator, {"The cat", ""}), "score: text 2 has 0 tokens; scoring needs two");
  EXPECT_EQ(refused(generator, {"x"}), "score: text 1 has 1 token; scoring needs two");
  const Generator bare = Generator::load(golden_path("language/llama"));
  EXPECT_NE(
      message_of<FormatError>([&] { bare.score(std::vector<std::string>{"x"}); }).find("tokenizer.json is missing"),
      std::string::npos);
  const GoldenCopy broken("language/gpt2");
  SafeTensors file = read_safetensors(broken / "model.safetensors");
  file.tensors.at("transformer.ln_f.weight").data<float>()[2] = std::nanf("");
  write_safetensors(broken / "model.safetensors", file);
  EXPECT_EQ(refused(Generator::load(broken / ""), {"The cat"}), "score: the model's logits are not finite");
}

}  // namespace
}  // namespace qkv::test
