// qkv rank, and what it shares with fill, tag and answer; what these print: answers.txt.
#include "apps/program.h"

namespace qkv::test {
namespace {

// For "dogs", of golden/rank/expected.json.
TEST(Rank, BestFirstInLinesAndJson) {
  const Folder folder;
  const Surroundings texts{.input = "The cat sat on the mat.\nA dog ran.\n\nSomebody.\n"};
  const std::string command = "rank --model @tests/golden/rank --query dogs";
  expect_words(
      folder.text(command, texts),
      "0.0731 ... \tA dog ran.\n0.0548 ... \tSomebody.\n0.0515 ... \t\n0.0481 ... \tThe cat sat on the mat.\n");
  const std::string two = folder.text(command + " --json --top 2", texts);
  expect_words(two, "{\"index\":1,\"score\":0.0731 ... }\n{\"index\":3,\"score\":0.0548");
  EXPECT_EQ(lines_of(two).size(), 2u);
  EXPECT_EQ(folder.text(command), "");
  const Surroundings longer{.input = "a\na a a a a a a a a a a a a a a\n"};
  const Outcome cut = folder.run("rank --model @tests/golden/rank --query a --json", longer);
  EXPECT_EQ(cut.err, "qkv rank: 3 tokens of 1 pair are cut off; the model reads at most 16 of a pair\n");
  EXPECT_NE(cut.out.find("\"cut\":3"), std::string::npos) << cut.out;
}

TEST(Rank, RefusesBytesThatAreNoText) {
  const Folder folder;
  const Surroundings latin{.input = "the cat\nthe m\xe4t\n"};
  const Outcome outcome = folder.run("rank --model @tests/golden/rank --query a", latin);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "");
  expect_words(outcome.err, "line 2");
  EXPECT_EQ(lines_of(folder.text("rank --model @tests/golden/rank --query a --replace-invalid", latin)).size(), 2u);
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
}

// As --without-head and --keep of explain.
TEST(ExplainHead, WithoutHeadsAndWithHeadsKept) {
  const Folder folder;
  const Surroundings texts{.input = "The cat sat.\n"};
  const std::string rank = "rank --model @tests/golden/rank --query cats ", sentence = " 'The cat sat on the mat.'";
  const Words commands = {rank, "classify --model @tests/golden/rank" + sentence,
                          "fill --model @tests/golden/fill --text 'The [MASK] sat.'",
                          "tag --model @tests/golden/tags" + sentence,
                          "answer --model @tests/golden/answers --question 'Who sat?' --text" + sentence};
  using Answers = std::vector<std::pair<std::string, std::string>>;
  for (const std::string& command : commands) {
    SCOPED_TRACE(command);
    const auto run = [&](const std::string& options) { return folder.run(command + " " + options, texts); };
    expect_words(run("--explain --without-head 1.0 --without-key sat").out, " without head 1.0 and key ");
    const auto files = folder.files();
    for (const auto& [options, words] :
         Answers{{"--explain --without-head 9.0", "--without-head: there is no layer 9"},
                 {"--explain --without-key fish", "--without-key: there is no token \"fish\""},
                 {"--without-head 0.0", "--without-head requires --explain"},
                 {"--explain --json --keep 0.0", "--keep requires --html"},
                 {"--explain --html a.html --keep 0.9", "--keep: there is no head 9"},
                 {"--explain --html a.html --keep-rows 1", "--keep-rows requires --keep"}}) {
      expect_message(run(options), 2, "qkv " + words_of(command)[0], words);
    }
    EXPECT_TRUE(folder.files() == files);
    EXPECT_EQ(run("--explain --html a.html --keep 1.1 --keep-rows 0").code, 0);
  }
}

// What they print of good texts: answers.txt.
TEST(HeadCommands, CountWhatTheyCutAndRefuseBytesThatAreNoText) {
  const Folder folder;
  const Outcome cut = folder.run("tag --model @tests/golden/tags --json 'a a a a a a a a a a a a a a a a'");
  EXPECT_EQ(cut.err, "qkv tag: 2 tokens of 1 text are cut off; the model reads at most 16 of a text\n");
  EXPECT_EQ(Json::parse(cut.out)["cut"], 2);
  const Surroundings two_lines{.input = "a\ncat\n"};
  const std::string both = folder.text("answer --model @tests/golden/answers --question who --json --top 3", two_lines);
  EXPECT_NE(both.find(R"("answer":"a\ncat")"), std::string::npos) << both;
  expect_answers(folder, "",
                 {{"fill --model @tests/golden/fill --text '[MASK] m\xe4t'", 2, "UTF-8"},
                  {"tag --model @tests/golden/tags 'm\xe4t'", 2, "UTF-8"},
                  {"answer --model @tests/golden/answers --question 'm\xe4t' --text b", 2, "--question"}});
}

}  // namespace
}  // namespace qkv::test
