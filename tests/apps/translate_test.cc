// qkv translate: lines in, translations out, by the model that ships; the rest is pipelines/translator_test.cc.
#include "apps/running_program.h"
#include "sanitizers.h"

namespace qkv::test {
namespace {

const std::string kIds = "translate --model @tests/golden/translate/relu --ids ";  // 41 tokens, 32 positions

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Each line of JSON.
std::vector<Json> answers_in(const std::string& text) {
  std::vector<Json> all;
  for (const std::string& line : lines_of(text)) all.push_back(Json::parse(line));
  return all;
}

Json first_of(const Json& answer) { return answer.at("translations").at(0); }

TEST(Translate, OneLineForEachInOrder) {
  const std::string text = "You are welcome\r\n\n" + repeated("Thank you\nYou are welcome\n", 25) + "Thank you";
  for (const std::string options :
       {"--threads 1", "--threads 3", "--weights bf16", "--weights int8", "--weights int8_groups",
        "--precision reduced", "--precision reduced --weights bf16"}) {
    EXPECT_EQ(text_of("translate " + options, {.input = text}),
              "De nada\n\n" + repeated("Gracias\nDe nada\n", 25) + "Gracias\n");
  }
  EXPECT_EQ(text_of("translate"), "");
  EXPECT_EQ(text_of("translate 'You are welcome' 'Thank you'"), "De nada\nGracias\n");
}

TEST(Translate, SaysWhatItCutsOff) {
  const std::string much = repeated("x ", 300);
  const Surroundings around{.input = "You are welcome\n" + much};
  const Outcome text = succeed("translate --max-length 3", around);
  EXPECT_TRUE(text.out.starts_with("De nada\n")) << text.out;
  EXPECT_TRUE(text.err.starts_with("qkv translate: line 2: the last ")) << text.err;
  expect_words(text.err, " tokens are cut off; the model reads at most 256\n");
  const auto answers = answers_in(succeed("translate --json --max-length 3", around).out);
  EXPECT_FALSE(answers.at(0).contains("cut"));
  EXPECT_GT(answers.at(1).at("cut"), 40);
  const Outcome one = succeed("translate --beams 1 --max-length 3 'Thank you. " + much + ". You are welcome.'");
  EXPECT_TRUE(one.err.starts_with("qkv translate: line 1, sentence 2: the last ")) << one.err;
  EXPECT_EQ(lines_of(one.err).size(), 1u) << one.err;
}

// 45 sentences, which the model cannot read at once.
const std::string kTooLong = repeated("Thank you. You are welcome.How are you?  ", 15);

TEST(Translate, SplitsWhatIsTooLong) {
  const std::string too_long = "'" + kTooLong + "' ";
  const auto answers = answers_in(text_of("translate --json --nbest 2 " + too_long + "'Thank you.'"));
  EXPECT_FALSE(answers.at(0).contains("cut"));
  EXPECT_EQ(answers.at(0).at("translations").size(), 2u);
  const Json whole = first_of(answers.at(0)), sentences = whole.at("sentences");
  ASSERT_EQ(sentences.size(), 45u);
  const Json sources{sentences[3]["source"], sentences[4]["source"], sentences[5]["source"]};
  EXPECT_EQ(sources, Json({"Thank you.", "You are welcome.", "How are you?"}));
  Json alone = first_of(answers.at(1));
  alone["source"] = "Thank you.";
  EXPECT_EQ(sentences[3], alone);
  std::string joined;
  for (const Json& one : sentences) joined += (joined.empty() ? "" : " ") + one.at("text").get<std::string>();
  EXPECT_EQ(whole.at("text"), joined);
  EXPECT_EQ(text_of("translate " + too_long), joined + "\n");
  const Outcome cut = succeed("translate --no-split --max-length 3 " + too_long);
  EXPECT_NE(cut.out, joined + "\n");
  EXPECT_TRUE(cut.err.starts_with("qkv translate: line 1: the last ")) << cut.err;
  // And explains each of them.
  const std::string explain = "translate --explain --json --beams 1 ";
  const Words explained = lines_of(text_of(explain + too_long));
  EXPECT_EQ(explained.size(), 45u);
  EXPECT_EQ(explained.at(0) + "\n", text_of(explain + "'Thank you.'"));
}

// The shipped model with a bound of its own, in model/.
void write_model(const Folder& folder, double unsure_below) {
  std::filesystem::remove_all(folder / "model");
  std::filesystem::copy(QKV_SOURCE_DIR "/models/en-es", folder / "model");
  Json generation = Json::parse(slurp(folder / "model/generation_config.json"));
  generation["unsure_below"] = unsure_below;
  folder.put("model/generation_config.json", generation.dump());
}

// A word is as probable as its tokens together; text and JSON come from two runs.
TEST(Translate, MarksImprobableWords) {
  const std::string text = "'The boys are playing with stones'";
  const Json survey = Json::parse(text_of("translate --explain --json " + text)), found = survey["translation"];
  const Json sequences = survey["sequences"];
  const auto target = std::ranges::find_if(sequences, [](const Json& one) { return one["name"] == "target"; });
  std::vector<double> probabilities(found["target_words"].size(), 1.0);
  for (std::size_t i = 0; i < found["written"].size(); ++i) {
    const int word = (*target)["word_of"][i];
    if (word >= 0) probabilities[std::size_t(word)] *= found["written"][i]["probability"].get<double>();
  }
  const std::string shown = text_of("translate --explain " + text);
  std::size_t marks = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    const std::string word = found["target_words"][i];
    EXPECT_EQ(holds(shown, word + " (?)"), probabilities[i] < 0.5) << word << probabilities[i];
    marks += probabilities[i] < 0.5 ? 1 : 0;
  }
  EXPECT_TRUE(marks > 0 && marks < probabilities.size());
  EXPECT_FALSE(holds(text_of("translate --explain 'You are welcome'"), "(?)"));
}

TEST(Translate, SaysWhatTheShippedModelHasNotLearned) {
  const std::string letters = "qkv translate: line 2: the model was not trained on these characters\n",
                    origin =
                        "The model that comes with qkv was trained only on everyday phrases, program messages and "
                        "Bible verses: ";
  for (const std::string foreign : {"\xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82", "\xe4\xbd\xa0\xe5\xa5\xbd"}) {
    const Outcome outcome = succeed("translate 'You are welcome' " + foreign);
    EXPECT_TRUE(outcome.err.starts_with(letters)) << outcome.err;
    EXPECT_TRUE(holds(outcome.err, "\n" + origin)) << outcome.err;
    EXPECT_FALSE(holds(succeed("translate --quiet 'You are welcome' " + foreign).err, origin));
    EXPECT_FALSE(holds(succeed("translate --model @models/en-es 'You are welcome' " + foreign).err, origin));
  }
  EXPECT_FALSE(holds(succeed("translate '\xc2\xbfqu\xc3\xa9?'").err, "letters"));
  expect_words(shown_on_terminal("translate 'You are welcome'", {}, 80, &Surroundings::errors), origin);
}

TEST(Translate, MarksWhatItIsUnsureOf) {
  const Folder folder;
  const auto run = [&](const std::string& options) {
    return folder.run("translate --beams 1 --model model " + options + " 'You are welcome' 'xyzzy plugh quux'");
  };
  write_model(folder, -1e9);
  const Outcome plain = run("");
  EXPECT_EQ(plain.err, "");
  std::vector<double> per_token;  // the sum over the tokens is score * length
  for (const Json& answer : answers_in(run("--json").out)) {
    EXPECT_FALSE(first_of(answer).contains("unsure"));
    per_token.push_back(first_of(answer).at("score"));
  }
  ASSERT_LT(per_token.at(1), per_token.at(0));
  write_model(folder, per_token[1] - 1e-6);
  EXPECT_EQ(run("").err, "");

  write_model(folder, per_token[1] + 1e-6);
  const std::string message = fmt::format("qkv translate: line 2: probably wrong: mean token probability {:.0f} %\n",
                                          100 * std::exp(per_token[1]));
  const Outcome json = run("--json");
  EXPECT_EQ(run(""), (Outcome{0, plain.out, message}));
  EXPECT_EQ(run("--length-penalty 0").err, message);  // whatever the scores are divided by
  EXPECT_EQ(json.err, message);
  EXPECT_FALSE(first_of(answers_in(json.out).at(0)).contains("unsure"));
  EXPECT_EQ(first_of(answers_in(json.out).at(1)).at("unsure"), true);
  write_model(folder, 0);  // above any of its scores
  const std::string ids = folder.run("translate --ids --model model '7 9 11 7 9 11 0'").err;
  EXPECT_TRUE(ids.starts_with("qkv translate: line 1: probably wrong: mean token probability ")) << ids;
}

TEST(Translate, DimsWhatItIsUnsureOfOnATerminal) {
  const Folder folder;
  const auto shown = [&](const std::string& variable) {
    return shown_on_terminal("TERM=xterm " + variable + " translate --model model 'You are welcome'",
                             {.folder = folder.path()});
  };
  write_model(folder, 0);
  EXPECT_EQ(shown("NO_COLOR="), "\x1b[2mDe nada\x1b[0m\r\n");
  EXPECT_EQ(shown("NO_COLOR=1"), "De nada\r\n");
  write_model(folder, -1e9);
  EXPECT_EQ(shown("NO_COLOR="), "De nada\r\n");
}

TEST(Translate, MarksTheSentenceItIsUnsureOf) {
  const Folder folder;
  write_model(folder, -0.9);
  const Outcome outcome = folder.run("translate --json --model model '" + kTooLong + "Xyzzy plugh quux.'");
  EXPECT_TRUE(outcome.err.starts_with("qkv translate: line 1, sentence 46: probably wrong: mean token probability "))
      << outcome.err;
  expect_words(outcome.out, "/translations/0/unsure = true ... /translations/0/sentences/45/unsure = true");
  EXPECT_FALSE(first_of(answers_in(outcome.out).at(0)).at("sentences").at(44).contains("unsure"));
}

// Line i draws from stream i, however the lines arrive, and the seed decides.
TEST(Translate, SamplingIsTheSameHoweverLinesArrive) {
  const std::string line = "translate --sample --temperature 3 --max-length 6 --seed ",
                    text = repeated("Good morning, my friend\n", 3) + "\n" + repeated("Good morning, my friend\n", 20);
  const Words at_once = lines_of(succeed(line + "3", {.input = text}).out);
  RunningProgram program(line + "3");
  Words one_by_one;
  for (const std::string& sentence : lines_of(text)) {
    program.write(sentence + "\n");
    one_by_one.push_back(program.read_line());
  }
  EXPECT_EQ(one_by_one, at_once);
  EXPECT_NE(at_once.at(0), at_once.at(23));
  EXPECT_NE(lines_of(succeed(line + "4", {.input = text}).out), at_once);
}

// Nearly every token is as probable as another one then, the line break among them.
TEST(Translate, ALineBreakWithinATranslationIsASpace) {
  const std::string line = "translate --model @tests/golden/translate/bart_text --temperature 50 --sample ";
  const Surroundings around{.input = repeated("Thank you\n", 100)};
  expect_words(text_of(line + "--json", around), "\\n");
  const std::string text = text_of(line, around);
  EXPECT_EQ(lines_of(text).size(), 100u);
  EXPECT_FALSE(holds(text, "\r"));
}

TEST(Translate, IdsAreTakenVerbatim) {
  // tests/golden/translate/relu.json: greedy
  EXPECT_TRUE(text_of(kIds + "--beams 1", {.input = "31 0\n20 19 0\n"}).starts_with("0\n"));
  std::string good;
  for (int i = 0; i < 50; ++i) good += fmt::format("{} 20 19 0\n", 1 + i % 39);
  const std::string said = "qkv translate: line 51: \"1 x 0\" must be ids: whole numbers separated by spaces\n";
  EXPECT_EQ(run_program(kIds + "--beams 1", {.input = good + "1 x 0\n20 19 0\n"}),
            (Outcome{3, text_of(kIds + "--beams 1", {.input = good}), said}));
}

TEST(Translate, TextOfNbestTellsLinesApart) {
  const std::string line = "translate --beams 3 --nbest 2 ";
  const Surroundings around{.input = "You are welcome\n\nThank you\n"};
  const auto answers = answers_in(text_of(line + "--json", around));
  std::istringstream text(text_of(line, around));
  int rows = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    for (const Json& one : answers[i].at("translations")) {
      std::string number, score, translation;
      std::getline(text, number, '\t'), std::getline(text, score, '\t'), std::getline(text, translation);
      EXPECT_EQ(number, std::to_string(i + 1));
      EXPECT_NEAR(std::stod(score), one.at("score").get<double>(), 1e-5);  // six digits
      EXPECT_EQ(translation, one.at("text").get<std::string>());
      ++rows;
    }
  }
  EXPECT_EQ(rows, 5);
  EXPECT_GE(answers[0].at("translations")[0].at("score"), answers[0].at("translations")[1].at("score"));
  EXPECT_EQ(text.peek(), std::char_traits<char>::eof());
  EXPECT_TRUE(text_of(kIds + "--nbest 1 0").starts_with("1\t"));
}

#ifndef QKV_SANITIZED  // sanitizers need memory of their own
TEST(Translate, MemoryDoesNotGrowWithTheInput) {
  std::string input;
  for (int i = 0; i < 10000; ++i) input += fmt::format("{} 20 19 0\n", 1 + i % 39);
  const Surroundings around{.input = input, .memory = std::size_t{64} << 20};
  EXPECT_EQ(lines_of(text_of(kIds + "--threads 1 --beams 1 --max-length 8", around)).size(), 10000u);
}
#endif

// What is left out of the run is not left out of the search: the words stay, their probabilities do not.
TEST(Translate, ExplainsWithoutAHeadOrAKey) {
  const std::string left_out = " --without-head encoder-decoder.1.3 --without-key encoder.You",
                    line = "translate --explain 'You are welcome' 'Can You come?'" + left_out;
  const std::string text = text_of(line);
  EXPECT_TRUE(
      text.starts_with("You are welcome  ->  De nada without encoder-decoder head 1.3 and encoder key 0, \"You\"\n"))
      << text;
  expect_words(text, "qkv explain --text \"You are welcome\"" + left_out + "\n");
  const auto both = answers_in(text_of(line + " --json"));
  const std::string explain = "explain --text 'You are welcome' --json";
  EXPECT_EQ(both.at(0), Json::parse(text_of(explain + left_out)));
  const Json whole = Json::parse(text_of(explain)).at("translation"), without = both.at(0).at("translation");
  EXPECT_EQ(without.at("target_text"), "De nada");
  EXPECT_NE(without.at("written"), whole.at("written"));
  EXPECT_EQ(both.at(1).at("left_out").at("keys").at(0).at("key"), 1);
}

}  // namespace
}  // namespace qkv::test
