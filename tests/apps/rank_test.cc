// qkv rank and qkv fill: what sentence-transformers (golden/rank) and transformers (golden/fill) say, in lines and in
// JSON.
#include "apps/program.h"

namespace qkv::test {
namespace {

TEST(Rank, BestFirstInLinesAndJson) {
  const Folder folder;
  for (const Json& each : Json::parse(slurp(QKV_TEST_DATA "/golden/rank/expected.json"))) {
    const std::string query = each["query"];
    if (query.empty() || query.find(' ') != std::string::npos) continue;
    const Words texts = each["texts"];
    std::string input;
    for (const std::string& text : texts) input += text + "\n";
    const std::string command = "rank --model @tests/golden/rank --query=" + query;
    const Words lines = lines_of(folder.text(command, {.input = input})),
                json = lines_of(folder.text(command + " --json --top 2", {.input = input}));
    ASSERT_EQ(lines.size(), texts.size());
    ASSERT_EQ(json.size(), 2u);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::size_t index = each["order"][i], tab = lines[i].find('\t');
      EXPECT_EQ(lines[i].substr(tab + 1), texts[index]);
      EXPECT_NEAR(std::stod(lines[i]), each["sigmoid"][index].get<double>(), 1e-5);
      if (i >= json.size()) continue;
      const Json found = Json::parse(json[i]);
      EXPECT_EQ(found["index"], index);
      EXPECT_NEAR(found["score"].get<double>(), each["sigmoid"][index].get<double>(), 1e-5);
    }
  }
  EXPECT_EQ(folder.text("rank --model @tests/golden/rank --query a"), "");
}

TEST(Rank, RefusesInOneLine) {
  const Folder folder;
  const Surroundings latin{.input = "the cat\nthe m\xe4t\n"};
  const Outcome outcome = folder.run("rank --model @tests/golden/rank --query a", latin);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "");
  expect_words(outcome.err, "line 2");
  EXPECT_EQ(lines_of(folder.text("rank --model @tests/golden/rank --query a --replace-invalid", latin)).size(), 2u);
  expect_answers(folder, "rank --query a ",
                 {{"--model @tests/golden/bert/tiny", 3, "must end with ForSequenceClassification"},
                  {"--model @models/digits", 3, "model_type"},
                  {"--model @tests/golden/rank --top 0", 2, "--top"}});
}

TEST(Fill, OneLineForEachMask) {
  const Folder folder;
  for (const Json& each : Json::parse(slurp(QKV_TEST_DATA "/golden/fill/expected.json"))) {
    const std::string command = "fill --model @tests/golden/fill --text '" + each["text"].get<std::string>() + "'";
    const Words lines = lines_of(folder.text(command)), json = lines_of(folder.text(command + " --json"));
    ASSERT_EQ(lines.size(), each["masks"].size());
    ASSERT_EQ(json.size(), lines.size());
    for (std::size_t m = 0; m < lines.size(); ++m) {
      const Json words = Json::parse(json[m])["words"];
      ASSERT_EQ(words.size(), 5u);
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(words[i]["word"], each["masks"][m][i]["token_str"]);
        EXPECT_NEAR(words[i]["probability"].get<double>(), each["masks"][m][i]["score"].get<double>(), 1e-5);
      }
      EXPECT_TRUE(lines[m].starts_with(words[0]["word"].get<std::string>() + " ")) << lines[m];
    }
  }
  expect_answers(folder, "fill --model @tests/golden/",
                 {{"rank --text [MASK]", 3, "must end with ForMaskedLM"},
                  {"fill --text '[MASK] m\xe4t'", 2, "UTF-8"},
                  {"fill --text cat", 3, "fill: the text has no [MASK]"}});
}

}  // namespace
}  // namespace qkv::test
