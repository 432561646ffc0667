// Scores of pairs against sentence-transformers (golden/rank, made by make.py there), and what its files say.
#include "qkv/pipelines/reranker.h"

#include "pipelines/refusals.h"

namespace qkv::test {
namespace {

using nlohmann::json;

const std::string kGoldenRank = QKV_TEST_DATA "/golden/rank/";
constexpr const char* kIdentity = R"({"activation_fn": "torch.nn.modules.linear.Identity"})";

struct RankFolderForTest : TemporaryFolder {
  RankFolderForTest() {
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}) {
      std::filesystem::copy_file(kGoldenRank + name, *this / name);
    }
  }
};

void expect_scores(const Reranker& reranker, const char* kind) {
  for (const json& each : json::parse(slurp(kGoldenRank + "expected.json"))) {
    const std::string query = each["query"];
    const std::vector<std::string> texts = each["texts"];
    const std::vector<float> expected = each[kind];
    const std::vector<float> scores = reranker.score(query, texts);
    const std::vector<Ranked> ranked = reranker.rank(query, texts, {.threads = 1});
    ASSERT_EQ(scores.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_NEAR(scores[i], expected[i], 1e-5) << query << " | " << texts[i];
      EXPECT_EQ(reranker.score(query, std::span(texts).subspan(i, 1)), std::vector{scores[i]});
      EXPECT_EQ(ranked[i].index, each["order"][i]);
      EXPECT_EQ(ranked[i].score, scores[ranked[i].index]);
    }
  }
}

TEST(Reranker, AgreesWithSentenceTransformers) {
  expect_scores(Reranker::load(kGoldenRank), "sigmoid");
  const Reranker reranker = Reranker::load(kGoldenRank);
  const std::pair<std::string, std::string> pairs[] = {{"who", "a cat"},
                                                       {"where where", "the mat mat mat mat mat mat mat mat mat"}};
  std::vector<std::int64_t> cut(2);
  const std::vector<float> scores = reranker.score(pairs, {.cut = cut});
  EXPECT_EQ(cut, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(scores[0], reranker.score("who", std::vector<std::string>{"a cat"})[0]);
  const float logit = reranker.score(pairs, {.score = RankScore::logit})[1];
  EXPECT_NEAR(scores[1], 1 / (1 + std::exp(-logit)), 1e-6);
  const std::vector<std::string> longer{"the mat", "the mat mat mat mat mat mat mat mat mat mat mat mat"};
  reranker.rank("where where", longer, {.cut = cut});
  EXPECT_EQ(cut, (std::vector<std::int64_t>{0, 2}));  // 13 tokens beside 2 and 3 special ones; it reads 16
  EXPECT_EQ(message_of<std::invalid_argument>([&] { reranker.score(pairs, {.cut = std::span(cut).first(1)}); }),
            "rank: 2 pairs need as many elements in cut, got 1");
  const RankFolderForTest folder;
  folder.put("config_sentence_transformers.json", kIdentity);
  expect_scores(Reranker::load(folder / ""), "identity");
  EXPECT_TRUE(Reranker::load(kGoldenRank).rank("a", {}).empty());
}

TEST(Reranker, RefusesWhatItsFilesMayNotSay) {
  const RankFolderForTest folder;
  folder.put("modules.json", R"([{"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}])");
  folder.put("config_sentence_transformers.json", R"({"default_prompt_name": null})");
  expect_refusals(folder, "reranker", [&] { Reranker::load(folder / ""); });
  json config = json::parse(slurp(kGoldenRank + "config.json"));
  const auto refusal_with = [&](const char* key, const json& value) {
    json changed = config;
    changed[key] = value;
    folder.put("config.json", changed.dump());
    return message_of<FormatError>([&] { Reranker::load(folder / ""); });
  };
  for (const auto& [key, value, said] :
       {std::tuple<const char*, json, const char*>{"architectures", json{"BertModel"}, "the model has another head"},
        {"id2label", {{"0", "no"}, {"1", "yes"}}, "tensor \"classifier.weight\" is [1, 12]; it must be [2, 12]"},
        {"sbert_ce_default_activation_function", "torch.nn.Tanh", "must be torch's Sigmoid or Identity"},
        {"sentence_transformers", {{"activation_fn", "Tanh"}}, "must be torch's Sigmoid or Identity"}}) {
    EXPECT_NE(refusal_with(key, value).find(said), std::string::npos) << refusal_with(key, value);
  }
  folder.put("config.json", config.dump());
  folder.put("tokenizer_config.json", R"({"model_max_length": 2})");
  EXPECT_EQ(message_of<FormatError>([&] { Reranker::load(folder / ""); }).substr((folder / "").size()),
            "/tokenizer.json: encode_pair: max_length 2 leaves no room for 3 special tokens");
}

}  // namespace
}  // namespace qkv::test
