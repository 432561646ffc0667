// qkv explain as its users run it: in a pipe, on a terminal, with arrays of their own, on the words of a model.
#include "apps/running_program.h"
#include "apps/tiny_bert.h"
#include "qkv/files.h"

namespace qkv::test {
namespace {

const std::string kDot = "1.93662 6.68311 1.59507", kScaled = "1.86387 6.31937 1.70419",
                  kLookAhead = "1.99902 7.99413 0.00294";

void expect_to_hold(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_TRUE(holds(text, part)) << part << " in " << text;
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (const std::string& line : lines_of(text)) longest = std::max(longest, line.size());
  return longest;
}

std::string on_terminal(const std::string& environment, const std::string& options = "", unsigned short columns = 0) {
  return shown_on_terminal("explain " + options, {.environment = words_of(environment)}, columns);
}

TEST(ExplainProgram, ColorsOnATerminalUnlessToldNotTo) {
  EXPECT_FALSE(holds(run_program("explain").out, "\x1b"));
  EXPECT_TRUE(holds(on_terminal("TERM=xterm NO_COLOR="), "\x1b[31m"));
  EXPECT_FALSE(holds(on_terminal("TERM=xterm NO_COLOR=1"), "\x1b"));
  EXPECT_FALSE(holds(on_terminal("TERM=dumb NO_COLOR="), "\x1b"));
  const Folder folder;
  folder.put("x.csv", "# labels: a\x1b[31m, b\n1,2\n3,4\n");  // labels cannot steer it
  EXPECT_FALSE(holds(folder.text("explain --input x.csv"), "\x1b"));
}

TEST(ExplainProgram, SubstitutesFromTextAndFiles) {
  const Folder folder;
  folder.put("w.csv", "0,0.5,0.5\n0,1,0\n0,0.9,0.1\n");
  for (const std::string source : {"[[0,0.5,0.5],[0,1,0],[0,0.9,0.1]]", "w.csv"}) {
    const Json output = folder.json("explain --json --substitute weights=" + source)["output"];
    EXPECT_EQ(Json({output[0], output[1]}), Json::parse("[[2.0,7.0,1.5],[2.0,8.0,0.0]]"));
    EXPECT_NEAR(output[2][1].get<double>(), 7.8, 1e-14);
    EXPECT_NEAR(output[2][2].get<double>(), 0.3, 1e-14);
  }
  folder.text("explain --substitute scores=[[1,0,0],[0,1,0],[0,0,1]] --substitute weights=w.csv");
}

TEST(ExplainProgram, TakesTheUsersArrays) {
  const Folder folder;
  write_npy(folder / "x.npy", Tensor::of<std::int32_t>({3, 4}, {1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1}));
  folder.put("q.json", "[[1,0,1],[1,0,0],[0,0,1],[0,1,1]]");
  folder.put("k.csv", "0,0,1\n1,1,0\n0,1,0\n1,1,0\n");
  expect_to_hold(folder.text("explain"), {kDot, kScaled, kLookAhead});
  const std::string unit = "[[1,0,0],[0,1,0],[0,0,1]]";
  const std::string own =
      "explain --input x.npy --w-query q.json --w-key k.csv --w-value [[0,2,0],[0,3,0],[1,0,3],[1,1,0]] ";
  const std::pair<std::string, std::string> cases[] = {{own, kScaled},  // unless --score says otherwise
                                                       {own + "--score dot", kDot},
                                                       {own + "--scale 1", kDot},
                                                       {"explain --score bilinear --score-w " + unit, kDot},
                                                       {own + "--causal top-left", kLookAhead},
                                                       {own + "--mask [[1,0,0],[1,1,0],[1,1,1]]", kLookAhead}};
  for (const auto& [line, output] : cases) EXPECT_TRUE(holds(folder.run(line).out, output)) << line;
  folder.text(own + "--score bilinear --seed 5");  // makes up score_w
}

TEST(ExplainProgram, EveryScoreRuns) {
  const Folder folder;
  for (const std::string score : {"dot", "scaled-dot", "additive", "concat", "bilinear"}) {
    const Json json = folder.json("explain --json --score " + score);
    EXPECT_EQ(json["score"], score);
    EXPECT_LT(json["largest_difference_from_reference"].get<double>(), 1e-12) << score;
  }
  const Json json = folder.json("explain --json --inputs 5 --dim 6 --key-dim 3 --value-dim 2 --init kaiming");
  EXPECT_EQ(json["output"].size(), 5u);
  EXPECT_EQ(json["output"][0].size(), 2u);
  EXPECT_EQ(json["sections"][3]["blocks"][1]["tensors"][1]["shape"], Json({5, 3}));
}

TEST(ExplainProgram, DigitsLookAtDigits) {
  const Tensor digits = read_csv(QKV_SOURCE_DIR "/data/digits.csv");
  ASSERT_EQ(digits.shape(), (Dims{16, 64}));
  double sum = 0;
  for (int i = 0; i < 64; ++i) sum += digits.data<double>()[i];
  EXPECT_EQ(sum, 294);  // the first picture of the source, added up
  const Folder folder;
  const std::string line = "explain --input @data/digits.csv --init xavier --seed ", text = folder.text(line + "1");
  expect_to_hold(text, {"inputs [16, 64]", "digit 0a attends most to digit ", "digit 5b attends most to digit "});
  EXPECT_EQ(text, folder.text(line + "1"));
  EXPECT_NE(text, folder.text(line + "2"));
  EXPECT_LE(longest_line(text), 98u);
}

TEST(ExplainProgram, IsAsWideAsAskedOrAsTheTerminal) {
  const Folder folder;  // however long its name is: a title names the file alone
  const std::string deep = folder / std::string(60, 'd'), digits = "--input " + deep + "/digits.csv ";
  std::filesystem::create_directory(deep);
  std::filesystem::copy(QKV_SOURCE_DIR "/data/digits.csv", deep);
  for (const std::size_t width : {60, 140}) {
    const std::string text = folder.text("explain " + digits + "--width " + std::to_string(width));
    EXPECT_LE(longest_line(text), width);
    EXPECT_GT(longest_line(text), width - 20);
  }
  EXPECT_GT(longest_line(folder.text("explain --full " + digits)), 64u * 3);  // rows of 64 pixels
  EXPECT_FALSE(holds(folder.text("explain --inputs 25 --dim 40 --full"), "..."));
  EXPECT_LE(longest_line(on_terminal("TERM=dumb", digits, 60)), 61u);  // a terminal ends lines with \r\n
  EXPECT_GT(longest_line(on_terminal("TERM=dumb", digits, 150)), 130u);
  EXPECT_LE(longest_line(on_terminal("TERM=dumb", digits, 0)), 99u);  // one that does not know its size
}

TEST(ExplainProgram, HeatIsInTheColoursOfTheTerminal) {
  const std::string block = "\xe2\x96\x80", color = "\x1b[38;5;";
  EXPECT_TRUE(holds(on_terminal("TERM=xterm-256color NO_COLOR= COLORTERM=", "--heat"), color));
  EXPECT_FALSE(holds(on_terminal("TERM=xterm-256color NO_COLOR=1 COLORTERM=", "--heat"), block));
  EXPECT_FALSE(holds(on_terminal("TERM=xterm NO_COLOR= COLORTERM=", "--heat"), block));
  EXPECT_TRUE(holds(on_terminal("TERM=xterm NO_COLOR= COLORTERM=truecolor", "--heat"), block));
  EXPECT_TRUE(holds(run_program("explain --heat").out, "query 1 ::****"));
  EXPECT_LE(longest_line(on_terminal("TERM=dumb NO_COLOR=1 COLUMNS=50", "--heat --inputs 90", 120)), 51u);
}

TEST(ExplainProgram, DrawsStepsAsSvg) {
  const Folder folder;
  EXPECT_EQ(folder.text("explain --svg all.svg"), folder.text("explain"));
  EXPECT_TRUE(holds(slurp(folder / "all.svg"), "Step 8. Repeat for the rest"));
  folder.text("explain --svg one.svg --step 5");
  EXPECT_FALSE(holds(slurp(folder / "one.svg"), "Step 8."));
  EXPECT_EQ(folder.sorted_names(), (Words{"all.svg", "one.svg"}));
}

// The folder and the options; the rest is explain/head_survey_test.cc.
const std::string kWords = "explain --model model --text 'a b a c' ";

TEST(ExplainModel, ShowsEveryHeadThenOne) {
  const TinyBert model;
  expect_to_hold(model.text(kWords), {"0 a, 1 b, 2 a, 3 ?\n"});
  const std::string one = model.text(kWords + "--layer 1 --head 2");
  EXPECT_TRUE(holds(one, "Layer 1, head 2\n") && !holds(one, "Step 1.")) << one;
  expect_to_hold(
      model.text(kWords + "--layer 1 --head 2 --token a"),
      {"Step 1. The query of token 0, \"a\"", "The token occurs several times: this is number 0; also at 2"});
  expect_to_hold(model.text(kWords + "--layer 0 --head 0 --token 2"), {"token 2, \"a\""});
  expect_to_hold(model.text(kWords + "--token 2"), {"Token 2, \"a\"", "ranks as knock-out"});
  expect_to_hold(model.text(kWords + "--without-head 1.2"), {" without head 1.2\n"});
  expect_to_hold(
      model.text("explain --text 'You are welcome' --without-head encoder.0.1 --without-key encoder-decoder.You "
                 "--token De"),
      {"without encoder head 0.1 and encoder-decoder key 0, \"You\"\n"});
}

TEST(ExplainModel, ShowsOtherKindsOfEncoders) {
  const TinyBert distilbert("encoders/distilbert");
  const std::string roberta = "explain --model @tests/golden/encoders/roberta --text ";
  expect_to_hold(distilbert.text(kWords), {"0 a, 1 b, 2 a, 3 ?\n"});
  expect_to_hold(distilbert.text(roberta + "'cat <mask>'"), {"0 <s>, 1 cat, 2  <mask>, 3 </s>\n"});
  // Of MPNet's relative positions there is a bias.
  expect_to_hold(
      distilbert.text("explain --model @tests/golden/encoders/mpnet --text 'the cat' --layer 1 --head 2 "
                      "--token cat"),
      {" + bias of the key's relative position: [4]\n",
       "       score        bias       logit      weight  value norm\n", "logits from scale x scores + bias "});
  EXPECT_FALSE(holds(distilbert.text(kWords + "--layer 0 --head 0 --token a"), "bias"));
  EXPECT_FALSE(holds(distilbert.text(roberta + "cat --layer 0 --head 0 --token cat"), "bias"));
}

TEST(ExplainModel, WritesJson) {
  const TinyBert model;
  const std::string json = kWords + "--json ";
  EXPECT_EQ(model.json(json).at("attentions").at(0).at("all").size(), 6u);
  const Json whole = model.json(json + "--weights");
  EXPECT_EQ(whole.at("attentions").at(0).at("all").at(5).at("weights").at(3).size(), 4u);
  const Json trace = model.json(json + "--layer 0 --head 1 --token b");
  EXPECT_EQ(trace.at("token"), 1);
  EXPECT_EQ(trace.at("weights").size(), 4u);
  const Json token = model.json(json + "--token b");
  EXPECT_EQ(token.at("kind"), "token");
  EXPECT_EQ(token.at("heads").at("all").size(), 6u);
  const Json without = model.json(json + "--without-head 1.2 --without-key b --weights"),
             heads = without.at("attentions").at(0).at("all");
  EXPECT_EQ(without.at("left_out"), Json::parse(R"({"heads": [{"attention": "attention", "layer": 1, "head": 2}],
                                                    "keys": [{"attention": "attention", "key": 1}]})"));
  EXPECT_EQ(heads.at(5).at("weights").at(0), Json({0, 0, 0, 0}));
  EXPECT_EQ(heads.at(0).at("weights").at(0).at(1), 0);
}

}  // namespace
}  // namespace qkv::test
