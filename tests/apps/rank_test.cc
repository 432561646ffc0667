// qkv rank, fill, tag and answer: what sentence-transformers (golden/rank) and transformers (golden/fill, golden/tags,
// golden/answers) say, in lines and in JSON.
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
    // Standard error has how much of the longest text was cut off.
    const Words lines = lines_of(folder.run(command, {.input = input}).out),
                json = lines_of(folder.run(command + " --json --top 2", {.input = input}).out);
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
  const Surroundings longer{.input = "a\na a a a a a a a a a a a a a a\n"};
  const Outcome cut = folder.run("rank --model @tests/golden/rank --query a --json", longer);
  EXPECT_EQ(cut.err, "qkv rank: 3 tokens of 1 pair are cut off; the model reads at most 16 of a pair\n");
  EXPECT_NE(cut.out.find("\"cut\":3"), std::string::npos) << cut.out;
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

// The numbers are those of tests/explain/judged_test.cc.
TEST(ExplainHead, OfEachCommand) {
  const Folder folder;
  const std::string sentence = " 'The cat sat on the mat.'";
  const Surroundings texts{.input = "A dog ran.\nThe cat sat.\n"};
  const auto object = [&](const std::string& command, const Surroundings& given = {}) {
    return Json::parse(folder.text(command + " --explain --json", given));
  };
  const std::string fill = "fill --model @tests/golden/fill --text 'The [MASK] sat.'";
  const Json filled = object(fill + " --word cat");
  EXPECT_EQ(filled["tokens"], (Json{"cat"}));
  EXPECT_EQ(filled["words"]["all"], (Json{"the", "[MASK]", "sat", "."}));
  expect_words(filled["fingerprint"].get<std::string>(), "qkv1-");
  EXPECT_EQ(object(fill)["tokens"],
            (Json{Json::parse(lines_of(folder.text(fill + " --json"))[0])["words"][0]["word"]}));
  EXPECT_EQ(object("classify --model @tests/golden/rank --second 'A dog.'" + sentence)["tokens"], (Json{"LABEL_0"}));
  const Json ranked = object("rank --model @tests/golden/rank --query cats", texts);
  EXPECT_TRUE(ranked.contains("score"));
  const std::string best = lines_of(folder.text("rank --model @tests/golden/rank --query cats", texts))[0];
  EXPECT_EQ(ranked["input"], "cats | " + best.substr(best.find('\t') + 1));
  const std::string answer = "answer --model @tests/golden/answers --question 'Who sat?' --text" + sentence;
  EXPECT_EQ(object(answer)["tokens"], (Json{Json::parse(folder.text(answer + " --json"))["answer"]}));
  const Words tagged = lines_of(folder.text("tag --model @tests/golden/tags --aggregation none --json" + sentence));
  const std::string tags = folder.text("tag --model @tests/golden/tags --explain" + sentence);
  for (const Json& found : Json::parse(tagged[0])["found"]) {
    expect_words(tags, found["label"].get<std::string>() + " of " + found["word"].get<std::string>());
  }
  EXPECT_EQ(folder.run(fill + " --explain --html report.html").code, 0);
  expect_words(slurp(folder / "report.html"), "came from ... view=token&of=1");
  expect_answers(folder, "",
                 {{"classify --model @tests/golden/rank --explain --label fish cat", 2,
                   "--label: the model has no label \"fish\", only LABEL_0"},
                  {"classify --model @tests/golden/rank --label fish cat", 2, "--label"},
                  {"fill --model @tests/golden/fill --text cat --explain", 2, "--text: the text has no [MASK]"},
                  {fill + " --explain --word 'no word'", 2, "--word: \"no word\" is no single word"},
                  {"tag --model @tests/golden/tags --explain", 2, "--explain"}});
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
                 {{"fill --text '[MASK]' --weights bf16 --precision exact", 0, " 0."},
                  {"rank --text [MASK]", 3, "must end with ForMaskedLM"},
                  {"fill --text '[MASK] m\xe4t'", 2, "UTF-8"},
                  {"fill --text cat", 3, "fill: the text has no [MASK]"}});
}

TEST(Tag, EachTextInALineAndInJson) {
  const Folder folder;
  std::map<std::string, std::string> inputs;
  std::map<std::string, std::vector<Json>> expected;
  for (const Json& each : Json::parse(slurp(QKV_TEST_DATA "/golden/tags/expected.json"))) {
    if (each["kind"] != "bert" || each["text"].get<std::string>().size() > 50) continue;
    inputs[each["strategy"]] += each["text"].get<std::string>() + "\n";
    expected[each["strategy"]].push_back(each);
  }
  for (const auto& [strategy, rows] : expected) {
    const std::string command = "tag --model @tests/golden/tags --aggregation " + strategy;
    const Words lines = lines_of(folder.text(command, {.input = inputs.at(strategy)})),
                json = lines_of(folder.text(command + " --json", {.input = inputs.at(strategy)}));
    ASSERT_EQ(lines.size(), rows.size());
    ASSERT_EQ(json.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Json found = Json::parse(json[i]), wanted = rows[i]["found"];
      ASSERT_EQ(found["found"].size(), wanted.size());
      EXPECT_EQ(found["text"], rows[i]["text"]);
      std::string line;
      for (std::size_t n = 0; n < wanted.size(); ++n) {
        EXPECT_NEAR(found["found"][n]["score"].get<double>(), wanted[n]["score"].get<double>(), 1e-5);
        line += (n == 0 ? "" : ", ") + found["found"][n]["word"].get<std::string>() + " ";
        line += found["found"][n]["label"].get<std::string>();
        line += lines[i].substr(std::min(line.size(), lines[i].size()), 7);  // " 0.1234"
        found["found"][n]["score"] = wanted[n]["score"];
      }
      EXPECT_EQ(found["found"], wanted);
      EXPECT_EQ(lines[i], line);
    }
  }
  const Outcome cut = folder.run("tag --model @tests/golden/tags --json 'a a a a a a a a a a a a a a a a'");
  EXPECT_EQ(cut.err, "qkv tag: 2 tokens of 1 text are cut off; the model reads at most 16 of a text\n");
  EXPECT_EQ(Json::parse(cut.out)["cut"], 2);
  expect_answers(folder, "tag --model @tests/golden/",
                 {{"rank a", 3, "must end with ForTokenClassification"},
                  {"tags 'm\xe4t'", 2, "UTF-8"},
                  {"tags a --aggregation last", 2, "none|simple|first|average|max"}});
}

TEST(AnswerQuestions, BestFirstInLinesAndJson) {
  const Folder folder;
  for (const Json& each : Json::parse(slurp(QKV_TEST_DATA "/golden/answers/expected.json"))) {
    const Json& given = each["arguments"];
    if (each["kind"] != "bert" || given.contains("max_seq_len") || given.contains("align_to_words")) continue;
    std::string command = "answer --model @tests/golden/answers --stride 2 --question '" +
                          each["question"].get<std::string>() + "' --top " + given["top_k"].dump();
    if (given.contains("max_answer_len")) command += " --max-answer " + given["max_answer_len"].dump();
    if (given.contains("handle_impossible_answer")) command += " --impossible";
    const std::string context = each["context"];
    const Words lines = lines_of(folder.text(command + " --text '" + context + "'")),
                json = lines_of(folder.text(command + " --json", {.input = context + "\n"}));
    ASSERT_EQ(lines.size(), each["answers"].size());
    ASSERT_EQ(json.size(), lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const Json& said = each["answers"][i];
      Json found = Json::parse(json[i]);
      EXPECT_NEAR(found["score"].get<double>(), said["score"].get<double>(), 1e-5);
      found["score"] = said["score"];
      EXPECT_EQ(found, said);
      EXPECT_EQ(lines[i].substr(lines[i].find('\t') + 1), said["answer"].get<std::string>());
    }
  }
  const Surroundings two_lines{.input = "a\ncat\n"};
  const std::string both = folder.text("answer --model @tests/golden/answers --question who --json --top 3", two_lines);
  EXPECT_NE(both.find(R"("answer":"a\ncat")"), std::string::npos) << both;
  expect_answers(folder, "answer --model @tests/golden/",
                 {{"rank --question a --text b", 3, "must end with ForQuestionAnswering"},
                  {"answers --question 'm\xe4t' --text b", 2, "--question"},
                  {"answers --question 'a a a a a a a a a a a a a a' --text b", 3, "leave room for the second"}});
}

}  // namespace
}  // namespace qkv::test
