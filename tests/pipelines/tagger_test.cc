// Labels of words against transformers' pipeline (golden/tags, made by make.py there).
#include "qkv/pipelines/tagger.h"

#include "pipelines/head_folder.h"
#include "pipelines/texts/character_spans.h"

namespace qkv::test {
namespace {

using nlohmann::json;

const std::string kGoldenTags = QKV_TEST_DATA "/golden/tags/";

TEST(Tagger, AgreesWithThePipelineOfTransformers) {
  const std::map<std::string, Aggregation> strategies{{"none", Aggregation::none},
                                                      {"simple", Aggregation::simple},
                                                      {"first", Aggregation::first},
                                                      {"average", Aggregation::average},
                                                      {"max", Aggregation::max}};
  std::map<std::pair<std::string, std::string>, std::vector<json>> rows;
  for (const json& each : json::parse(slurp(kGoldenTags + "expected.json"))) {
    rows[{each["kind"], each["strategy"]}].push_back(each);
  }
  EXPECT_EQ(rows.size(), 4 * strategies.size());
  for (const auto& [key, expected] : rows) {
    const HeadFolder folder(key.first, "tags");
    const Tagger tagger = Tagger::load(folder / "");
    std::vector<std::string> texts;
    for (const json& each : expected) texts.push_back(each["text"]);
    const Aggregation aggregation = strategies.at(key.second);
    const auto all = tagger.tag(texts, {.aggregation = aggregation});
    for (std::size_t i = 0; i < texts.size(); ++i) {
      SCOPED_TRACE(key.first + " " + key.second + ": " + texts[i]);
      const auto alone = tagger.tag(std::span(texts).subspan(i, 1), {.aggregation = aggregation, .threads = 1})[0];
      const CharacterSpans characters(texts[i]);
      ASSERT_EQ(all[i].size(), expected[i]["found"].size());
      for (std::size_t n = 0; n < alone.size(); ++n) {
        const auto& [label, score, word, span] = all[i][n];
        const json& said = expected[i]["found"][n];
        EXPECT_EQ(label, said["label"].get<std::string>());
        EXPECT_NEAR(score, said["score"].get<double>(), 1e-5);
        EXPECT_EQ(score, alone[n].score);
        EXPECT_EQ(word, said["word"].get<std::string>());
        EXPECT_EQ(characters.of(span), (TextSpan{said["start"], said["end"]})) << word;
      }
    }
  }
}

TEST(Tagger, CountsWhatItCutsAndRefusesOthers) {
  const Tagger tagger = Tagger::load(kGoldenTags);
  std::string longer = "cat";
  for (int i = 0; i < 16; ++i) longer += " cat";
  const std::vector<std::string> texts{"a cat", longer};
  std::vector<std::int64_t> cut(2);
  tagger.tag(texts, {.cut = cut});
  EXPECT_EQ(tagger.max_length(), 16u);
  EXPECT_EQ(cut, (std::vector<std::int64_t>{0, 3}));  // 17 cats beside [CLS] and [SEP]
  EXPECT_EQ(message_of<std::invalid_argument>([&] { tagger.tag(texts, {.cut = std::span(cut).first(1)}); }),
            "tag: 2 texts need as many elements in cut, got 1");
  EXPECT_NE(message_of<FormatError>([] { Tagger::load(QKV_TEST_DATA "/golden/rank"); }).find("ForTokenClassification"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::test
