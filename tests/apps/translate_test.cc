// qkv translate: lines in, translations out, by the model that ships; the rest is pipelines/translator_test.cc.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/running_program.h"
#include "apps/terminal.h"
#include "sanitizers.h"

namespace qkv::test {
namespace {

using Json = nlohmann::json;

TEST(Translate, TheShippedModelKnowsThePhrase) {
  const Outcome outcome = run_program({"translate", "You are welcome", "Thank you"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "De nada\nGracias\n");
}

TEST(Translate, OneLineForEachInOrder) {
  const TempFolder folder;
  std::string text = "You are welcome\r\n\n";
  for (int i = 0; i < 50; ++i) text += i % 3 == 0 ? "Thank you\n" : "You are welcome\n";
  std::ofstream(folder / "in") << text + "Thank you";
  for (const char* threads : {"1", "3"}) {
    const Outcome outcome = run_program({"translate", "--threads", threads}, {.input = folder / "in"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::string expected = "De nada\n\n";
    for (int i = 0; i < 50; ++i) expected += i % 3 == 0 ? "Gracias\n" : "De nada\n";
    EXPECT_EQ(outcome.out, expected + "Gracias\n");
  }
  const Outcome none = run_program({"translate"}, {.input = "/dev/null"});
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
}

TEST(Translate, EveryWayOfKeepingWeights) {
  for (const char* weights : {"f32", "bf16", "int8"}) {
    const Outcome outcome = run_program({"translate", "--weights", weights, "You are welcome"});
    EXPECT_EQ(outcome.out, "De nada\n") << weights << outcome.err;
  }
}

TEST(Translate, JsonHasTextIdsAndScore) {
  const Outcome outcome = run_program({"translate", "--json", "--beam", "3", "--nbest", "3", "You are welcome"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json list = Json::parse(outcome.out).at("translations");
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].at("text"), "De nada");
  EXPECT_GE(list[0].at("score"), list[1].at("score"));
  EXPECT_FALSE(list[0].at("ids").empty());
}

TEST(Translate, SaysWhatItCutsOff) {
  const TempFolder folder;
  std::ofstream input(folder / "in");
  input << "You are welcome\n";
  for (int i = 0; i < 300; ++i) input << "x ";
  input.close();
  const Outcome text = run_program({"translate", "--max-length", "3"}, {.input = folder / "in"});
  EXPECT_EQ(text.code, 0);
  EXPECT_TRUE(text.out.starts_with("De nada\n")) << text.out;
  EXPECT_TRUE(text.err.starts_with("qkv translate: line 2: the last ")) << text.err;
  EXPECT_NE(text.err.find(" tokens are cut off; the model reads at most 256\n"), std::string::npos) << text.err;
  const Outcome json = run_program({"translate", "--json", "--max-length", "3"}, {.input = folder / "in"});
  const std::size_t second = json.out.find('\n') + 1;
  EXPECT_FALSE(Json::parse(json.out.substr(0, second)).contains("cut"));
  EXPECT_GT(Json::parse(json.out.substr(second)).at("cut").get<int>(), 40);
}

// 90 sentences, which the model cannot read at once.
std::string too_long_text() {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "Thank you. You are welcome.How are you?  ";
  return text;
}

TEST(Translate, SplitsWhatIsTooLong) {
  const Json alone = Json::parse(run_program({"translate", "--json", "Thank you."}).out).at("translations").at(0);
  const Outcome json = run_program({"translate", "--json", "--nbest", "2", too_long_text(), "Thank you."});
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(json.err, "");
  const std::size_t second = json.out.find('\n') + 1;
  EXPECT_FALSE(Json::parse(json.out.substr(second)).at("translations").at(0).contains("sentences"));
  const Json line = Json::parse(json.out.substr(0, second));
  EXPECT_FALSE(line.contains("cut"));
  ASSERT_EQ(line.at("translations").size(), 2u);
  const Json sentences = line.at("translations").at(0).at("sentences");
  ASSERT_EQ(sentences.size(), 90u);
  EXPECT_EQ(sentences.at(3).at("source"), "Thank you.");
  EXPECT_EQ(sentences.at(3).at("text"), alone.at("text"));
  EXPECT_EQ(sentences.at(3).at("ids"), alone.at("ids"));
  EXPECT_EQ(sentences.at(4).at("source"), "You are welcome.");
  EXPECT_EQ(sentences.at(5).at("source"), "How are you?");
  std::string joined;
  for (const Json& one : sentences) joined += (joined.empty() ? "" : " ") + one.at("text").get<std::string>();
  EXPECT_EQ(line.at("translations").at(0).at("text"), joined);

  const Outcome text = run_program({"translate", too_long_text()});
  EXPECT_EQ(text.out, joined + "\n");
  const Outcome cut = run_program({"translate", "--no-split", "--max-length", "3", too_long_text()});
  EXPECT_EQ(cut.code, 0);
  EXPECT_NE(cut.out, text.out);
  EXPECT_TRUE(cut.err.starts_with("qkv translate: line 1: the last ")) << cut.err;
}

TEST(Translate, SaysWhichSentenceItCuts) {
  std::string text = "Thank you. ";
  for (int i = 0; i < 300; ++i) text += "x ";
  const Outcome outcome = run_program({"translate", "--beams", "1", "--max-length", "3", text + ". You are welcome."});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.err.starts_with("qkv translate: line 1, sentence 2: the last ")) << outcome.err;
  EXPECT_EQ(outcome.err.find("the last"), outcome.err.rfind("the last")) << outcome.err;
}

// The shipped model with a bound of its own.
void write_model(const TempFolder& folder, double unsure_below) {
  for (const auto& file : std::filesystem::directory_iterator(QKV_SOURCE_DIR "/models/en-es")) {
    const std::string copy = folder / file.path().filename().string();
    std::filesystem::copy_file(file.path(), copy, std::filesystem::copy_options::overwrite_existing);
  }
  Json generation = Json::parse(contents(folder / "generation_config.json"));
  generation["unsure_below"] = unsure_below;
  std::ofstream(folder / "generation_config.json") << generation;
}

TEST(Translate, MarksWhatItIsUnsureOf) {
  const TempFolder folder;
  const std::vector<std::string> texts = {"You are welcome", "xyzzy plugh quux"};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"translate", "--beams", "1", "--model", folder / ""});
    arguments.insert(arguments.end(), texts.begin(), texts.end());
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  };
  write_model(folder, -1e9);
  const Outcome plain = run({});
  EXPECT_EQ(plain.err, "");
  std::istringstream lines(run({"--json"}).out);
  double per_token[2];  // the sum over the tokens is score * length
  for (double& number : per_token) {
    std::string line;
    std::getline(lines, line);
    const Json one = Json::parse(line).at("translations").at(0);
    EXPECT_FALSE(one.contains("unsure"));
    number = one.at("score").get<double>();
  }
  ASSERT_LT(per_token[1], per_token[0]);
  write_model(folder, per_token[1] - 1e-6);
  EXPECT_EQ(run({}).err, "");

  write_model(folder, per_token[1] + 1e-6);
  const std::string message = fmt::format("qkv translate: line 2: unsure ({:.1f} a token)\n", per_token[1]);
  const Outcome marked = run({});
  EXPECT_EQ(marked.out, plain.out);
  EXPECT_EQ(marked.err, message);
  EXPECT_EQ(run({"--length-penalty", "0"}).err, message);  // whatever the scores are divided by
  const Outcome json = run({"--json"});
  EXPECT_EQ(json.err, message);
  const std::size_t second = json.out.find('\n') + 1;
  EXPECT_FALSE(Json::parse(json.out.substr(0, second)).at("translations").at(0).contains("unsure"));
  EXPECT_EQ(Json::parse(json.out.substr(second)).at("translations").at(0).at("unsure"), true);
  write_model(folder, 0);  // above any of its scores
  const Outcome ids = run_program({"translate", "--ids", "--model", folder / "", "7 9 11 7 9 11 0"});
  EXPECT_TRUE(ids.err.starts_with("qkv translate: line 1: unsure (-")) << ids.err;
}

TEST(Translate, DimsWhatItIsUnsureOfOnATerminal) {
  const TempFolder folder;
  write_model(folder, 0);
  const std::vector<std::string> arguments = {"translate", "--model", folder / "", "You are welcome"};
  EXPECT_EQ(shown_on_terminal(arguments, {"TERM=xterm", "NO_COLOR="}), "\x1b[2mDe nada\x1b[0m\r\n");
  EXPECT_EQ(shown_on_terminal(arguments, {"TERM=xterm", "NO_COLOR=1"}), "De nada\r\n");
  write_model(folder, -1e9);
  EXPECT_EQ(shown_on_terminal(arguments, {"TERM=xterm", "NO_COLOR="}), "De nada\r\n");
}

TEST(Translate, MarksTheSentenceItIsUnsureOf) {
  const TempFolder folder;
  write_model(folder, -0.9);
  const std::string text = too_long_text() + "Xyzzy plugh quux.";
  const Outcome outcome = run_program({"translate", "--json", "--model", folder / "", text});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.err.starts_with("qkv translate: line 1, sentence 91: unsure (-")) << outcome.err;
  const Json whole = Json::parse(outcome.out).at("translations").at(0);
  EXPECT_EQ(whole.at("unsure"), true);
  EXPECT_EQ(whole.at("sentences").at(90).at("unsure"), true);
  EXPECT_FALSE(whole.at("sentences").at(89).contains("unsure"));
}

TEST(Translate, ExplainsEachSentenceOfWhatIsTooLong) {
  const Outcome outcome = run_program({"translate", "--explain", "--json", "--beams", "1", too_long_text()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 90);
  EXPECT_EQ(outcome.out.substr(0, outcome.out.find('\n') + 1),
            run_program({"translate", "--explain", "--json", "--beams", "1", "Thank you."}).out);
}

// Line i draws from stream i, however the lines arrive.
TEST(Translate, SamplingIsTheSameHoweverLinesArrive) {
  const TempFolder folder;
  const std::vector<std::string> arguments = {"translate", "--sample", "--seed", "3", "--max-length", "6"};
  std::string text;
  for (int i = 0; i < 40; ++i) text += i % 5 == 3 ? "\n" : "Good morning, my friend\n";
  std::ofstream(folder / "in") << text;
  const std::string at_once = run_program(arguments, {.input = folder / "in"}).out;
  std::string one_by_one;
  RunningProgram program(arguments);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    program.write(line + "\n");
    one_by_one += program.read_line() + "\n";
  }
  EXPECT_EQ(one_by_one, at_once);
  EXPECT_NE(at_once.substr(0, at_once.find('\n')), at_once.substr(at_once.rfind('\n', at_once.size() - 2) + 1));
}

// Nearly every token is as probable as another one then, the line break among them.
TEST(Translate, ALineBreakWithinATranslationIsASpace) {
  const TempFolder folder;
  std::ofstream input(folder / "in");
  for (int i = 0; i < 100; ++i) input << "Thank you\n";
  input.close();
  const auto sampled = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"translate",     "--model", QKV_TEST_DATA "/golden/translate/bart_text",
                                          "--temperature", "50",      "--sample"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_program(arguments, {.input = folder / "in"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_NE(sampled({"--json"}).find("\\n"), std::string::npos);
  const std::string text = sampled({});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 100);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 0);
}

TEST(Translate, SamplingRepeatsWithItsSeed) {
  const auto draw = [](const char* seed) {
    return run_program({"translate", "--sample", "--seed", seed, "--temperature", "3", "Good morning, my friend"}).out;
  };
  EXPECT_EQ(draw("1"), draw("1"));
  EXPECT_NE(draw("1"), draw("2"));
}

TEST(Translate, IdsAreTakenVerbatim) {
  const TempFolder folder;
  std::ofstream(folder / "in") << "31 0\n20 19 0\n";
  const Outcome outcome =
      run_program({"translate", "--model", kIdsModel, "--ids", "--beams", "1"}, {.input = folder / "in"});
  // tests/golden/translate/relu.json: greedy
  EXPECT_EQ(outcome.out.substr(0, 2), "0\n") << outcome.err;
}

TEST(Translate, IdsBeforeALineThatIsRefusedAreAnswered) {
  const TempFolder folder;
  const std::vector<std::string> arguments = {"translate", "--model", kIdsModel, "--ids", "--beams", "1"};
  std::string good;
  for (int i = 0; i < 50; ++i) good += fmt::format("{} 20 19 0\n", 1 + i % 39);
  std::ofstream(folder / "good") << good;
  std::ofstream(folder / "in") << good + "1 x 0\n20 19 0\n";
  const Outcome outcome = run_program(arguments, {.input = folder / "in"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.err, "qkv translate: line 51: \"1 x 0\" must be ids: whole numbers separated by spaces\n");
  EXPECT_EQ(outcome.out, run_program(arguments, {.input = folder / "good"}).out);
}

TEST(Translate, TextOfNbestTellsLinesApart) {
  const TempFolder folder;
  std::ofstream(folder / "in") << "You are welcome\n\nThank you\n";
  const std::vector<std::string> arguments = {"translate", "--beams", "3", "--nbest", "2"};
  std::istringstream text(run_program(arguments, {.input = folder / "in"}).out);
  std::vector<std::string> with_json = arguments;
  with_json.push_back("--json");
  std::istringstream json(run_program(with_json, {.input = folder / "in"}).out);
  int number = 0, rows = 0;
  for (std::string expected; std::getline(json, expected);) {
    ++number;
    const Json answer = Json::parse(expected);
    for (const Json& one : answer.at("translations")) {
      std::string line, score, translation;
      std::getline(text, line, '\t'), std::getline(text, score, '\t'), std::getline(text, translation);
      EXPECT_EQ(line, std::to_string(number));
      EXPECT_NEAR(std::stod(score), one.at("score").get<double>(), 1e-5);  // six digits
      EXPECT_EQ(translation, one.at("text").get<std::string>());
      ++rows;
    }
  }
  EXPECT_EQ(rows, 5);
  EXPECT_EQ(text.peek(), std::char_traits<char>::eof());
  EXPECT_EQ(run_program({"translate", "--ids", "--model", kIdsModel, "--nbest", "1", "0"}).out.substr(0, 2), "1\t");
}

#ifndef QKV_SANITIZED  // sanitizers need memory of their own
TEST(Translate, MemoryDoesNotGrowWithTheInput) {
  const TempFolder folder;
  std::ofstream input(folder / "in");
  for (int i = 0; i < 10000; ++i) input << 1 + i % 39 << " 20 19 0\n";
  input.close();
  const Outcome outcome =
      run_program({"translate", "--model", kIdsModel, "--ids", "--threads", "1", "--beams", "1", "--max-length", "8"},
                  {.input = folder / "in", .memory = std::size_t{64} << 20});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 10000);
}
#endif

TEST(Translate, ExplainsEachWord) {
  const Outcome text = run_program({"translate", "--explain", "You are welcome"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("You are welcome  ->  De nada\n")) << text.out;
  EXPECT_NE(text.out.find("0 De "), std::string::npos);
  EXPECT_NE(text.out.find("1 nada "), std::string::npos);
  const Json json = Json::parse(run_program({"translate", "--explain", "--json", "You are welcome"}).out);
  EXPECT_EQ(json.at("translation").at("target_words"), Json({"De", "nada"}));
}

// What is left out of the run is not left out of the search: the words stay, their probabilities do not.
TEST(Translate, ExplainsWithoutAHeadOrAKey) {
  const std::vector<std::string> left_out = {"--without-head", "encoder-decoder.1.3", "--without-key", "encoder.You"};
  std::vector<std::string> arguments = {"translate", "--explain", "You are welcome", "Can You come?"};
  arguments.insert(arguments.end(), left_out.begin(), left_out.end());
  const Outcome text = run_program(arguments);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out.find("You are welcome  ->  De nada without encoder-decoder head 1.3 and encoder key 0, \"You\"\n"),
            0u)
      << text.out;
  EXPECT_NE(text.out.find("qkv explain --text \"You are welcome\" --without-head encoder-decoder.1.3 --without-key "
                          "encoder.You\n"),
            std::string::npos)
      << text.out;
  arguments.push_back("--json");
  std::istringstream lines(run_program(arguments).out);
  std::string first, second;
  std::getline(lines, first);
  std::getline(lines, second);
  std::vector<std::string> explain = {"explain", "--text", "You are welcome", "--json"};
  const Json whole = Json::parse(run_program(explain).out);
  explain.insert(explain.end(), left_out.begin(), left_out.end());
  const Json without = Json::parse(first);
  EXPECT_EQ(without, Json::parse(run_program(explain).out));
  EXPECT_EQ(without.at("translation").at("target_text"), "De nada");
  EXPECT_NE(without.at("translation").at("written"), whole.at("translation").at("written"));
  EXPECT_EQ(Json::parse(second).at("left_out").at("keys").at(0).at("key"), 1);
}

TEST(Translate, RefusesInOneLine) {
  const TempFolder folder;
  const auto refused = [](const std::vector<std::string>& options, int code, const std::string& part) {
    std::vector<std::string> arguments = {"translate"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    expect_message(run_program(arguments), code, "qkv translate", part);
  };
  refused({"--model", "/nowhere", "a"}, 4, "/nowhere/config.json");
  refused({"--beams", "0", "a"}, 2, "--beams");
  refused({"--seed", "1", "a"}, 2, "--seed requires --sample");
  for (const std::string option : {"--beams", "--nbest", "--max-length", "--top-k"}) {
    refused({"a", option}, 2, option + " needs N (");
  }
  refused({"--explain"}, 2, "--explain requires text");
  refused({"--without-head", "encoder.0.1", "a"}, 2, "--without-head requires --explain");
  refused({"--without-key", "encoder.a", "a"}, 2, "--without-key requires --explain");
  refused({"--explain", "--without-head", "0.1", "Hi"}, 2,
          "--without-head: \"0.1\" must begin with encoder., decoder. or encoder-decoder.");
  refused({"--explain", "--without-key", "encoder.Bye", "Hi"}, 3, "there is no token \"Bye\"");
  refused({"--weights", "int4", "a"}, 2, "must be one of f32|bf16|int8");
  refused({"--beams", "2", "--nbest", "3", "a"}, 3, "nbest");
  refused({"--model", kIdsModel, "a"}, 3, "tokenizer.json is missing");
  for (const auto& [line, part] :
       {std::pair("1 x", "line 1: \"1 x\" must be ids"), std::pair("", "line 1 has no ids"),
        std::pair("99999999999", "must be ids"), std::pair("1 41", "line 1: id 41 must be from 0 to 40"),
        std::pair("-1", "line 1: id -1 must be")}) {
    std::ofstream(folder / "in") << line << "\n";
    const Outcome outcome = run_program({"translate", "--model", kIdsModel, "--ids"}, {.input = folder / "in"});
    EXPECT_NE(outcome.code, 0);
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace qkv::test
