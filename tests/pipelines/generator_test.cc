// What language models write: texts beside transformers, one text however the work is cut, lengths, stop strings,
// refusals.
#include "qkv/pipelines/generator.h"

#include <bit>

#include "models/gguf_folder.h"
#include "models/models_for_test.h"

namespace qkv::test {
namespace {

using Ids = std::vector<std::int32_t>;

std::string language_folder(const std::string& name) { return golden_path("language/" + name); }

const nlohmann::json& golden_texts() {
  static const auto texts = nlohmann::json::parse(slurp(language_folder("gpt2_text.json")));
  return texts;
}

TEST(Generator, TextsAreThoseOfTransformers) {
  const Generator generator = Generator::load(language_folder("gpt2"));
  for (const nlohmann::json& wanted : golden_texts()) {
    const std::string text = wanted.at("text");
    SCOPED_TRACE(text);
    EXPECT_EQ(generator.tokenizer().encode(text).ids, wanted.at("ids").get<Ids>());
    const GeneratedText greedy = generator.generate(text, {.max_new_tokens = 24});
    EXPECT_EQ(greedy.ids, wanted.at("greedy").get<Ids>());
    EXPECT_EQ(greedy.text, wanted.at("text_of_greedy").get<std::string>());
    EXPECT_EQ(generator.generate(text, {.max_new_tokens = 12, .beams = 3}).ids, wanted.at("beams").get<Ids>());
    EXPECT_EQ(generator.generate(text, {.max_new_tokens = 24, .repetition_penalty = 1.3}).ids,
              wanted.at("penalty").get<Ids>());
    const GoldenCopy other("language/gpt2");
    other.put("generation_config.json", R"({"eos_token_id": 0, "no_repeat_ngram_size": 2, "max_new_tokens": 24})");
    EXPECT_EQ(Generator::load(other / "").generate(text).ids, wanted.at("no_repeat").get<Ids>());
  }
}

// The tokens and the bits of the log-probability of each text.
struct Written {
  Ids ids;
  std::uint64_t bits;
  bool operator==(const Written&) const = default;
};

std::vector<Written> written(const Generator& generator, const std::vector<Ids>& prompts,
                             const GeneratorOptions& options) {
  std::vector<Written> all;
  for (const auto& found : generator.generate_ids(prompts, options)) {
    all.push_back({found.front().ids, std::bit_cast<std::uint64_t>(found.front().log_probability)});
  }
  return all;
}

// The same of prompts that come two or three at a time, the next ones only when some have been written for a while.
std::vector<Written> written_running(const Generator& generator, const std::vector<Ids>& prompts,
                                     const GeneratorOptions& options) {
  std::vector<Written> all(prompts.size());
  std::size_t begun = 0, asked = 0;
  generator.generate_running(
      [&](bool idle) -> std::optional<Ids> {
        if (begun == prompts.size() || (!idle && ++asked % 4 > 1)) return std::nullopt;
        return prompts[begun++];
      },
      [&](std::size_t prompt, const std::vector<GeneratedText>& found) {
        all[prompt] = {found.front().ids, std::bit_cast<std::uint64_t>(found.front().log_probability)};
      },
      options);
  return all;
}

// 200 prompts: whole, in chunks of 7 and of 64, token by token, in company and alone, in another order, on 1, 2 and 5
// threads, and what was written as a part of the prompt.
TEST(Generator, OneTextHoweverTheWorkIsCut) {
  constexpr std::size_t kPrompts = 200;
  for (const std::string name : {"gpt2", "mistral", "gemma3"}) {
    for (const bool samples : {false, true}) {
      SCOPED_TRACE(name + (samples ? ", sampled" : ""));
      const Generator generator = Generator::load(language_folder(name));
      std::vector<Ids> prompts;
      for (std::size_t i = 0; i < kPrompts; ++i) {
        Ids& prompt = prompts.emplace_back(1 + i * i % 80);
        for (std::size_t at = 0; at < prompt.size(); ++at) {
          prompt[at] = static_cast<std::int32_t>((7 * i + at * at * (i + 3)) % 40);
        }
      }
      GeneratorOptions options{.max_new_tokens = 12, .threads = 1};
      if (samples) options.sampling = Sampling{.temperature = 1.5, .top_p = 0.95, .seed = 3};
      const std::vector<Written> wanted = written(generator, prompts, options);
      GeneratorOptions other = options;
      for (const std::int64_t chunk : {1, 2, 7, 64}) {
        other.chunk = chunk;
        EXPECT_EQ(written(generator, prompts, other), wanted) << "chunks of " << chunk;
      }
      other = options;
      for (const int threads : {2, 5}) {
        other.threads = threads;
        EXPECT_EQ(written(generator, prompts, other), wanted) << threads << " threads";
      }
      EXPECT_EQ(written_running(generator, prompts, options), wanted) << "as they come";
      other = options;
      for (std::size_t i = 0; i < kPrompts; i += 3) {
        other.stream.line = i;
        EXPECT_EQ(written(generator, {prompts[i]}, other).front(), wanted[i]) << "alone, prompt " << i;
      }
      if (samples) continue;  // what is drawn follows from the place in the order
      const std::vector<Ids> turned(prompts.rbegin(), prompts.rend());
      std::vector<Written> back = written(generator, turned, options);
      std::ranges::reverse(back);
      EXPECT_EQ(back, wanted) << "in another order";
    }
  }
}

TEST(Generator, LengthsAreThoseAskedFor) {
  const Generator generator = Generator::load(language_folder("llama"));  // 256 positions, and nothing ends a text
  const auto length = [&](std::size_t prompt, const GeneratorOptions& options) {
    return generator.generate_ids(std::vector<Ids>{Ids(prompt, 3)}, options).front().front().ids.size();
  };
  EXPECT_EQ(length(3, {.max_new_tokens = 5}), 5u);
  EXPECT_EQ(length(3, {.max_length = 5}), 2u);
  EXPECT_EQ(length(5, {.max_length = 5}), 1u);
  EXPECT_EQ(length(250, {.max_new_tokens = 9}), 6u);
  EXPECT_EQ(length(3, {}), 253u);
  const GoldenCopy other("language/llama");
  other.put("generation_config.json", R"({"max_length": 7})");
  const Generator short_ones = Generator::load(other / "");
  EXPECT_EQ(short_ones.generate_ids(std::vector<Ids>{{1, 2}, {1, 2, 3}}).at(1).front().ids.size(), 4u);
  EXPECT_EQ(short_ones.generate_ids(std::vector<Ids>{{1, 2}}, {.max_new_tokens = 9}).front().front().ids.size(), 9u);
}

// Of the text that would be written without it, what is in front of the string, whatever tokens it lies in; and the
// pieces that are given as it grows are the text.
TEST(Generator, StopStringsAreFoundAcrossTokensAndNeverWritten) {
  const Generator generator = Generator::load(language_folder("gpt2"));
  std::size_t found = 0;
  for (const nlohmann::json& golden : golden_texts()) {
    const std::string prompt = golden.at("text");
    const std::string whole = generator.generate(prompt, {.max_new_tokens = 24}).text;
    for (std::size_t at = 0; at + 1 < whole.size(); at += 3) {
      if ((whole[at] & 0xC0) == 0x80) continue;
      const std::string stop = whole.substr(at, 5);
      std::string grown;
      GeneratorOptions options{.max_new_tokens = 24, .stop_strings = {"never written", stop}};
      options.on_text = [&](std::size_t, std::string_view text) { grown += text; };
      const GeneratedText one = generator.generate(prompt, options);
      EXPECT_EQ(one.text, whole.substr(0, whole.find(stop)));
      EXPECT_EQ(grown, one.text);
      EXPECT_EQ(one.end, EndOfText::stop_string);
      ++found;
    }
    std::string grown;
    GeneratorOptions options{.max_new_tokens = 24, .stop_strings = {whole + "x"}};
    options.on_text = [&](std::size_t, std::string_view text) { grown += text; };
    EXPECT_EQ(generator.generate(prompt, options).text, whole);
    EXPECT_EQ(grown, whole);
  }
  EXPECT_GT(found, 20u);
}

TEST(Generator, AFolderThatDrawsIsObeyed) {
  const GoldenCopy folder("language/gpt2");
  folder.put("generation_config.json", R"({"eos_token_id": 0, "do_sample": true, "top_k": 3, "max_new_tokens": 16})");
  const Generator drawing = Generator::load(folder / ""), plain = Generator::load(language_folder("gpt2"));
  ASSERT_TRUE(drawing.sampling());
  EXPECT_FALSE(plain.sampling());
  const GeneratedText drawn = drawing.generate("A cat");
  EXPECT_EQ(drawn.ids, plain.generate("A cat", {.max_new_tokens = 16, .sampling = Sampling{.top_k = 3}}).ids);
  EXPECT_NE(drawn.ids, drawing.generate("A cat", {.sampling = Sampling{.seed = 1}}).ids);
  EXPECT_EQ(drawing.generate("A cat", {.greedy = true}).ids, plain.generate("A cat", {.max_new_tokens = 16}).ids);
}

// A GGUF file is the folder that it converts to (models/gguf_folder_test.cc has that beside transformers).
TEST(Generator, AGgufFileIsItsFolder) {
  for (const std::string kind : {"llama", "qwen2", "qwen3"}) {
    SCOPED_TRACE(kind);
    const TemporaryFolder folder;
    const std::string file = golden_path("gguf/" + kind + ".gguf");
    convert_gguf(file, folder / "model");
    for (const WeightStorage storage : {WeightStorage::full, WeightStorage::int8_groups}) {
      const Generator whole = Generator::load(file, storage), converted = Generator::load(folder / "model", storage);
      const std::string prompt = "The cat";
      const GeneratedText found = whole.generate(prompt), wanted = converted.generate(prompt);
      EXPECT_EQ(found.ids, wanted.ids);
      EXPECT_EQ(found.text, wanted.text);
      EXPECT_EQ(found.log_probability, wanted.log_probability);
    }
  }
}

TEST(Generator, WhatDoesNotFitIsRefused) {
  const Generator generator = Generator::load(language_folder("gpt2"));
  const auto refused = [](const auto& call) { return message_of<std::invalid_argument>(call); };
  EXPECT_EQ(refused([&] { generator.generate(std::vector<std::string>{"x", ""}); }),
            "generate: prompt 2 has no tokens; a prompt needs one");
  EXPECT_EQ(refused([&] { generator.generate_ids(std::vector<Ids>{Ids(256)}); }),
            "generate: prompt 1 has 256 tokens; the model has 256 positions, one of them for a new token");
  EXPECT_EQ(refused([&] { generator.generate("x", {.beams = 2, .stop_strings = {"."}}); }),
            "generate: stop strings and on_text need 1 beam, not 2");
  EXPECT_EQ(refused([&] { generator.generate("x", {.stop_strings = {""}}); }), "generate: a stop string is empty");
  EXPECT_EQ(refused([&] { generator.generate("x", {.beams = 2, .drafts = Drafts::lookup}); }),
            "generate: drafts need 1 beam, not 2");
  EXPECT_EQ(refused([&] { generator.generate("x", {.cache_type = Dtype::f64}); }),
            "generate: a cache is f32, bf16 or f16, not f64");
  EXPECT_EQ(refused([&] { generator.generate("x", {.max_new_tokens = -1}); }),
            "generate: max_new_tokens is -1; it must be 1 or more");
  EXPECT_EQ(refused([&] { generator.generate("x", {.max_length = 0}); }),
            "generate: max_length is 0; it must be 1 or more");
  const Generator bare = Generator::load(language_folder("llama"));
  EXPECT_NE(message_of<FormatError>([&] { bare.generate("x"); }).find("tokenizer.json is missing"), std::string::npos);

  const GoldenCopy broken("language/gpt2");
  SafeTensors file = read_safetensors(broken / "model.safetensors");
  file.tensors.at("transformer.ln_f.weight").data<float>()[2] = std::nanf("");
  write_safetensors(broken / "model.safetensors", file);
  EXPECT_EQ(refused([&] { Generator::load(broken / "").generate("x"); }),
            "generate: the model's logits are not finite: no token can be chosen");
}

// Rows are those of one pass over prompt and text (explain/written_text_test.cc has it beside transformers), and end
// with the text; asking changes no bit.
TEST(Generator, WeightsAreOfThePassesThatWrote) {
  const Generator generator = Generator::load(language_folder("llama"));
  const std::vector<Ids> prompts{{3, 1, 4, 1, 5}, {9, 2}, {6, 5, 3}};
  const GeneratorOptions plain{.max_new_tokens = 12};
  GeneratorOptions asked = plain;
  asked.heads = {{1, 3}, {0, 0}};
  EXPECT_EQ(written(generator, prompts, asked), written(generator, prompts, plain));
  const auto found = generator.generate_ids(prompts, asked);
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    const GeneratedText& text = found[p].front();
    Ids ids = prompts[p];
    ids.insert(ids.end(), text.ids.begin(), text.ids.end() - 1);
    std::map<std::string, Tensor> seen;
    struct Keeper : Observer {
      explicit Keeper(std::map<std::string, Tensor>& all) : tensors(all) {}
      void receive(std::string_view name, const TensorView& value) override {
        tensors[std::string(name)] = Tensor::copy(value);
      }
      std::map<std::string, Tensor>& tensors;
    } keeper(seen);
    generator.model().hidden(std::span(&ids, 1), {}, &keeper);
    ASSERT_EQ(text.weights.size(), 2u);
    for (std::size_t h = 0; h < 2; ++h) {
      const auto [layer, head] = asked.heads[h];
      const Tensor& whole = seen.at("layers." + std::to_string(layer) + ".weights");
      const auto before = std::ssize(prompts[p]);
      ASSERT_EQ(text.weights[h].shape(), (Dims{std::ssize(text.ids), before + std::ssize(text.ids) - 1}));
      for (std::int64_t i = 0; i < text.weights[h].size(0); ++i) {
        for (std::int64_t j = 0; j < text.weights[h].size(1); ++j) {
          const float wanted = j < before + i ? whole.view().at<float>({before - 1 + i, head, j}) : 0;
          EXPECT_NEAR(text.weights[h].view().at<float>({i, j}), wanted, 1e-6);
        }
      }
    }
  }
  GeneratorOptions beams = asked;
  beams.beams = 2;
  EXPECT_EQ(message_of<std::invalid_argument>([&] { generator.generate_ids(prompts, beams); }),
            "generate: weights of heads need 1 beam, not 2");
}

}  // namespace
}  // namespace qkv::test
