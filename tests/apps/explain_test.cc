// `qkv explain` as its users run it: in a pipe, on a terminal, with arrays of their own.
#include <nlohmann/json.hpp>

#include "apps/program.h"
#include "apps/terminal.h"
#include "qkv/files.h"

namespace qkv::test {
namespace {

using Json = nlohmann::json;

const std::string kDigits = QKV_SOURCE_DIR "/data/digits.csv";

Outcome explain(std::vector<std::string> arguments, const Surroundings& surroundings = {}) {
  arguments.insert(arguments.begin(), "explain");
  return run_program(arguments, surroundings);
}

std::string text_of(const std::vector<std::string>& arguments) {
  const Outcome outcome = explain(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

Json json_of(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  return Json::parse(text_of(arguments), nullptr, false);
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

std::string on_terminal(const std::vector<std::string>& environment, std::vector<std::string> arguments = {},
                        unsigned short columns = 0) {
  arguments.insert(arguments.begin(), "explain");
  return shown_on_terminal(arguments, environment, columns);
}

TEST(ExplainProgram, ShowsTheWorkedExample) {
  const std::string text = text_of({});
  for (const char* part : {"1.93662 6.68311 1.59507", "1.86387 6.31937 1.70419", "1.99902 7.99413 0.00294"}) {
    EXPECT_TRUE(holds(text, part)) << part;
  }
  EXPECT_FALSE(holds(text, "\x1b"));
}

TEST(ExplainProgram, ColorsOnATerminalUnlessToldNotTo) {
  EXPECT_TRUE(holds(on_terminal({"TERM=xterm", "NO_COLOR="}), "\x1b[31m"));
  EXPECT_FALSE(holds(on_terminal({"TERM=xterm", "NO_COLOR=1"}), "\x1b"));
  EXPECT_FALSE(holds(on_terminal({"TERM=dumb", "NO_COLOR="}), "\x1b"));
}

TEST(ExplainProgram, SubstitutesFromTextAndFiles) {
  const TempFolder folder;
  std::ofstream(folder / "w.csv") << "0,0.5,0.5\n0,1,0\n0,0.9,0.1\n";
  const Json expected = Json::parse("[[2.0,7.0,1.5],[2.0,8.0,0.0]]");
  for (const std::string& source : {std::string("[[0,0.5,0.5],[0,1,0],[0,0.9,0.1]]"), folder / "w.csv"}) {
    const Json json = json_of({"--substitute", "weights=" + source});
    EXPECT_EQ(json["output"][0], expected[0]);
    EXPECT_EQ(json["output"][1], expected[1]);
    EXPECT_NEAR(json["output"][2][1].get<double>(), 7.8, 1e-14);
    EXPECT_NEAR(json["output"][2][2].get<double>(), 0.3, 1e-14);
  }
}

TEST(ExplainProgram, TakesTheUsersArrays) {
  const TempFolder folder;
  write_npy(folder / "x.npy", Tensor::of<std::int32_t>({3, 4}, {1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1}));
  std::ofstream(folder / "q.json") << "[[1,0,1],[1,0,0],[0,0,1],[0,1,1]]";
  std::ofstream(folder / "k.csv") << "0,0,1\n1,1,0\n0,1,0\n1,1,0\n";
  const std::vector<std::string> arguments = {
      "--input", folder / "x.npy", "--w-query", folder / "q.json",
      "--w-key", folder / "k.csv", "--w-value", "[[0,2,0],[0,3,0],[1,0,3],[1,1,0]]"};
  EXPECT_TRUE(holds(text_of(arguments), "1.86387 6.31937 1.70419"));  // scaled unless --score says otherwise
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    return text_of(more);
  };
  EXPECT_TRUE(holds(with({"--score", "dot"}), "1.93662 6.68311 1.59507"));
  EXPECT_TRUE(holds(with({"--scale", "1"}), "1.93662 6.68311 1.59507"));
  EXPECT_TRUE(holds(with({"--causal", "top-left"}), "1.99902 7.99413 0.00294"));
  EXPECT_TRUE(holds(with({"--mask", "[[1,0,0],[1,1,0],[1,1,1]]"}), "1.99902 7.99413 0.00294"));
}

TEST(ExplainProgram, EveryScoreRuns) {
  for (const char* score : {"dot", "scaled-dot", "additive", "concat", "bilinear"}) {
    const Json json = json_of({"--score", score});
    EXPECT_EQ(json["score"], score);
    EXPECT_LT(json["largest_difference_from_reference"].get<double>(), 1e-12) << score;
  }
  // q^T w k with the unit matrix is the dot product.
  const std::string text = text_of({"--score", "bilinear", "--score-w", "[[1,0,0],[0,1,0],[0,0,1]]"});
  EXPECT_TRUE(holds(text, "1.93662 6.68311 1.59507"));
}

TEST(ExplainProgram, DigitsLookAtDigits) {
  const std::string text = text_of({"--input", kDigits, "--init", "xavier", "--seed", "1"});
  EXPECT_TRUE(holds(text, "inputs [16, 64]"));
  EXPECT_TRUE(holds(text, "digit 0a attends most to digit "));
  EXPECT_TRUE(holds(text, "digit 5b attends most to digit "));
  EXPECT_EQ(text, text_of({"--input", kDigits, "--init", "xavier", "--seed", "1"}));
  EXPECT_NE(text, text_of({"--input", kDigits, "--init", "xavier", "--seed", "2"}));
  EXPECT_LE(longest_line(text), 98u);
}

TEST(ExplainProgram, IsAsWideAsAskedOrAsTheTerminal) {
  const TempFolder folder;  // however long its name is: a title names the file alone
  const std::string deep = folder / std::string(60, 'd');
  std::filesystem::create_directory(deep);
  std::filesystem::copy_file(kDigits, deep + "/digits.csv");
  const std::vector<std::string> digits = {"--input", deep + "/digits.csv"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = digits;
    all.insert(all.end(), more.begin(), more.end());
    return text_of(all);
  };
  for (const std::size_t width : {60, 140}) {
    EXPECT_LE(longest_line(with({"--width", std::to_string(width)})), width);
    EXPECT_GT(longest_line(with({"--width", std::to_string(width)})), width - 20);
  }
  EXPECT_GT(longest_line(with({"--full"})), 64u * 3);  // rows of 64 pixels
  EXPECT_EQ(text_of({"--inputs", "25", "--dim", "40", "--full"}).find("..."), std::string::npos);
  const std::vector<std::string> plain = {"TERM=dumb"};
  const std::size_t narrow = longest_line(on_terminal(plain, digits, 60)) - 1;  // a terminal ends lines with \r\n
  EXPECT_LE(narrow, 60u);
  EXPECT_GT(longest_line(on_terminal(plain, digits, 150)), 130u);
  EXPECT_LE(longest_line(on_terminal(plain, digits, 0)) - 1, 98u);  // one that does not know its size
}

TEST(ExplainProgram, RefusesOptionsWithoutEffect) {
  const std::string name = "qkv explain";
  expect_message(explain({"--seed", "5"}), 2, name, "--seed: has no effect: all numbers are given");
  const std::vector<std::string> all = {"--input", "[[1,2],[3,4]]", "--w-query", "[[1,0],[0,1]]",
                                        "--w-key", "[[1,0],[0,1]]", "--w-value", "[[1,0],[0,1]]"};
  const auto with = [&](std::vector<std::string> arguments, std::initializer_list<std::string> more) {
    arguments.insert(arguments.end(), more);
    return explain(arguments);
  };
  EXPECT_EQ(explain(all).code, 0);
  expect_message(with(all, {"--seed", "5"}), 2, name, "--seed");
  expect_message(with(all, {"--init", "normal"}), 2, name, "--init: has no effect");
  expect_message(with(all, {"--key-dim", "2"}), 2, name, "--key-dim");
  expect_message(with(all, {"--value-dim", "2"}), 2, name, "--value-dim");
  EXPECT_EQ(with(all, {"--score", "bilinear", "--seed", "5"}).code, 0);  // makes up score_w
  expect_message(explain({"--score-v", "[1,2]"}), 2, name, "--score-v");
  expect_message(explain({"--score", "concat", "--score-w-key", "[[1]]"}), 2, name, "--score-w-key");
  expect_message(explain({"--json", "--width", "80"}), 2, name, "--json");
  expect_message(explain({"--width", "39"}), 2, name, "--width");
  expect_message(explain({"--substitute", "weights=[[1,0,0],[0,1,0],[0,0,1]]", "--substitute",
                          "weights=[[0,0,1],[0,1,0],[0,0,1]]"}),
                 2, name, "--substitute: weights is substituted twice");
  EXPECT_EQ(
      explain({"--substitute", "scores=[[1,0,0],[0,1,0],[0,0,1]]", "--substitute", "weights=[[0,0,1],[0,1,0],[0,0,1]]"})
          .code,
      0);
}

TEST(ExplainProgram, DigitsAreThoseOfTheSource) {
  const Tensor digits = read_csv(kDigits);
  ASSERT_EQ(digits.shape(), (Dims{16, 64}));
  double sum = 0;
  for (int i = 0; i < 64; ++i) sum += digits.data<double>()[i];
  EXPECT_EQ(sum, 294);  // the first picture of the source, added up
}

TEST(ExplainProgram, LabelsCannotSteerATerminal) {
  const TempFolder folder;
  std::ofstream(folder / "x.csv") << "# labels: a\x1b[31m, b\n1,2\n3,4\n";
  EXPECT_FALSE(holds(text_of({"--input", folder / "x.csv"}), "\x1b"));
}

TEST(ExplainProgram, MadeUpSizes) {
  const Json json = json_of({"--inputs", "5", "--dim", "6", "--key-dim", "3", "--value-dim", "2", "--init", "kaiming"});
  EXPECT_EQ(json["output"].size(), 5u);
  EXPECT_EQ(json["output"][0].size(), 2u);
  EXPECT_EQ(json["sections"][3]["blocks"][1]["tensors"][1]["shape"], Json::parse("[5,3]"));
}

TEST(ExplainProgram, SaysWhatIsWrong) {
  const std::string name = "qkv explain";
  expect_message(explain({"--substitute", "wait=[[1]]"}), 3, name,
                 "no \"wait\" to substitute; there are inputs, query");
  expect_message(explain({"--substitute", "weights"}), 2, name, "NAME=FILE or NAME=JSON");
  expect_message(explain({"--substitute", "weights=[[1]]"}), 3, name, "must be [3, 3] in f64, got [1, 1]");
  expect_message(explain({"--w-query", "[[1,2],[3,4]]"}), 3, name, "w_query must have 4 rows");
  expect_message(explain({"--input", "[[1,2],[3]]"}), 3, name, "--input");
  expect_message(explain({"--input", "missing.csv"}), 4, name, "missing.csv");
  expect_message(explain({"--input", kDigits, "--inputs", "3"}), 2, name, "--input");
  expect_message(explain({"--init", "random"}), 2, name, "normal|xavier|kaiming");
  expect_message(explain({"--scale", "nan"}), 2, name, "finite");
  expect_message(explain({"--score", "concat", "--score-w", "[[1,2]]"}), 3, name, "score_w");
}

TEST(ExplainProgram, HeatIsInTheColoursOfTheTerminal) {
  const std::string block = "\xe2\x96\x80", color = "\x1b[38;5;";
  const auto shown = [](std::vector<std::string> environment) {
    environment.emplace_back("COLORTERM=");
    return on_terminal(environment, {"--heat"});
  };
  EXPECT_TRUE(holds(shown({"TERM=xterm-256color", "NO_COLOR="}), color));
  EXPECT_FALSE(holds(shown({"TERM=xterm-256color", "NO_COLOR=1"}), block));
  EXPECT_FALSE(holds(shown({"TERM=xterm", "NO_COLOR="}), block));
  EXPECT_TRUE(holds(on_terminal({"TERM=xterm", "NO_COLOR=", "COLORTERM=truecolor"}, {"--heat"}), block));
  EXPECT_TRUE(holds(text_of({"--heat"}), "query 1 ::****"));
  EXPECT_LE(longest_line(on_terminal({"TERM=dumb", "NO_COLOR=1", "COLUMNS=50"}, {"--heat", "--inputs", "90"}, 120)),
            51u);
}

TEST(ExplainProgram, DrawsStepsAsSvg) {
  const TempFolder folder;
  EXPECT_EQ(text_of({"--svg", folder / "all.svg"}), text_of({}));
  EXPECT_TRUE(holds(contents(folder / "all.svg"), "Step 8. Repeat for the rest"));
  text_of({"--svg", folder / "one.svg", "--step", "5"});
  EXPECT_FALSE(holds(contents(folder / "one.svg"), "Step 8."));
  for (const auto& [options, line] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--step", "5"}, "--step requires --svg"},
           {{"--svg", folder / "a", "--html", folder / "a"}, "is also the file of --svg"},
           {{"--text", "Hello", "--svg", folder / "a"}, "--svg: needs --layer and --head"},
           {{"--heat", "--json"}, "cannot be combined with"},
           {{"--text", "Hello", "--svg", folder / "a", "--step", "1"}, "--step: cannot be combined with --text"}}) {
    const Outcome outcome = explain(options);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_TRUE(holds(outcome.err, line)) << outcome.err;
  }
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"all.svg", "one.svg"}));
}

}  // namespace
}  // namespace qkv::test
