// The tokenizers inside GGUF files: the ids of tokenizers and of sentencepiece (golden/gguf/make_models.py), and what
// is refused.
#include "text/gguf_tokenizer.h"

#include "io/gguf_for_test.h"
#include "qkv/text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace qkv::test {
namespace {

class GgufTokenizerKinds : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufTokenizerKinds, GivesTheIdsAndTextsOfTheReference) {
  const std::string name = GetParam();
  const Tokenizer tokenizer = Tokenizer::load(gguf_golden(name + ".gguf"));
  const auto expected = nlohmann::json::parse(slurp(gguf_golden(name + ".json")));
  const std::vector<std::string> texts = expected.at("texts"), decoded = expected.at("decoded");
  const std::vector<std::vector<std::int32_t>> ids = expected.at("ids");
  ASSERT_FALSE(texts.empty());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(tokenizer.encode(texts[i]).ids, ids[i]) << texts[i];
    EXPECT_EQ(tokenizer.decode(ids[i]), decoded[i]) << texts[i];
  }
}

INSTANTIATE_TEST_SUITE_P(, GgufTokenizerKinds, ::testing::Values("gpt2", "llama", "qwen2", "qwen3", "sentence_piece"),
                         [](const auto& kind) { return kind.param; });

TEST(GgufTokenizer, RefusesWhatWouldNotBeTheSame) {
  const auto read = [](const std::string& path) { Tokenizer::load(path); };
  const std::string ggml = "tokenizer.ggml.", model = ggml + "model" + u32(8), pre = ggml + "pre" + u32(8),
                    types = ggml + "token_type" + u32(9) + u32(5);
  expect_edits_refused(
      "gpt2.gguf",
      {{model + text_of("gpt2"), model + text_of("bert"),
        "key \"tokenizer.ggml.model\": is \"bert\"; supported: gpt2, llama"},
       {ggml + "model", ggml + "modex", "key \"tokenizer.ggml.model\" is missing"},
       {pre + text_of("gpt-2"), pre + text_of("gpt-4"),
        "key \"tokenizer.ggml.pre\": is \"gpt-4\"; supported: gpt-2, smollm, llama-bpe, qwen2"},
       {ggml + "pre", ggml + "prx", "key \"tokenizer.ggml.pre\" is missing"},
       {ggml + "tokens", ggml + "tokenx", "key \"tokenizer.ggml.tokens\" is missing"},
       {ggml + "merges", ggml + "mergex", "key \"tokenizer.ggml.merges\" is missing"},
       {text_of("!"), text_of("\""), "key \"tokenizer.ggml.tokens\": token \"\\\"\" appears twice"},
       {types + u64(286) + u32(3), types + u64(286) + u32(7), "token_type\": element 0 is 7, must be 1 to 6"},
       {types + u64(286) + u32(3), types + u64(286) + u32(0), "token_type\": element 0 is 0, must be 1 to 6"},
       {text_of("A S"), text_of("A~~"), "model.merges[2] must be two tokens with a space between"},
       {text_of("A S"), text_of("A #"), "model breaks a rule: merge 2: \"A#\" is not in the vocabulary"}},
      read);
  const std::string scores = ggml + "scores" + u32(9) + u32(6) + u64(420);
  expect_edits_refused(
      "sentence_piece.gguf",
      {{ggml + "scores", ggml + "scorex", "key \"tokenizer.ggml.scores\" is missing"},
       {ggml + "unknown_token_id" + u32(4) + u32(0), ggml + "unknown_token_id" + u32(4) + u32(420),
        "key \"tokenizer.ggml.unknown_token_id\": is 420, must be 0 to 419"},
       {ggml + "bos_token_id", ggml + "bos_token_ix", "key \"tokenizer.ggml.bos_token_id\" is missing"}},
      read);
}

// A file of keys alone.
std::string tokens_and_scores(const std::vector<std::string>& tokens, const std::vector<float>& scores) {
  std::string list, numbers;
  for (const std::string& token : tokens) list += text_of(token);
  for (const float score : scores) numbers += std::string(reinterpret_cast<const char*>(&score), sizeof score);
  const std::string ggml = "tokenizer.ggml.";
  return "GGUF" + u32(3) + u64(0) + u64(5) + key(ggml + "model", 8, text_of("llama")) +
         key(ggml + "tokens", 9, u32(8) + u64(tokens.size()) + list) +
         key(ggml + "scores", 9, u32(6) + u64(scores.size()) + numbers) + key(ggml + "unknown_token_id", 4, u32(0)) +
         key(ggml + "add_bos_token", 7, std::string(1, '\0'));
}

TEST(GgufTokenizer, ScoresMustOrderTheMerges) {
  const TemporaryFolder folder;
  std::vector<std::string> tokens{"?", "a", "b", "ab", "ba", "aba"};
  const auto load = [&](const std::vector<float>& scores) {
    return Tokenizer::load(folder.put("m.gguf", tokens_and_scores(tokens, scores)));
  };
  EXPECT_EQ(load({0, 0, 0, -1, -2, -3}).encode("aba").ids, (std::vector<std::int32_t>{0, 5}));  // the space is unknown
  EXPECT_EQ(load({0, 0, 0, -1, -2, -9}).encode("bab").ids, (std::vector<std::int32_t>{0, 2, 3}));
  EXPECT_EQ(load({0, 0, 0, -2, -1, -9}).encode("bab").ids, (std::vector<std::int32_t>{0, 4, 2}));
  EXPECT_NE(message_of<FormatError>([&] {
              load({0, 0, 0, -1, -1, -3});
            }).find("tokens \"ab\" and \"ba\" share the score -1, so the order of their merges is ambiguous"),
            std::string::npos);
  EXPECT_NE(message_of<FormatError>([&] { load({0, 0, 0, -1}); }).find("has 4 elements, must have 6"),
            std::string::npos);
  tokens.push_back("");  // is no half of a merge
  EXPECT_EQ(load({0, 0, 0, -1, -2, -3, 0}).encode("aba").ids, (std::vector<std::int32_t>{0, 5}));
}

}  // namespace
}  // namespace qkv::test
