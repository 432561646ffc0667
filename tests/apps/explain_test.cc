// qkv explain as its users run it: in a pipe, on a terminal, with arrays of their own, on the words of a model.
#include "apps/running_program.h"
#include "apps/tiny_bert.h"
#include "qkv/files.h"

namespace qkv::test {
namespace {

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (const std::string& line : lines_of(text)) longest = std::max(longest, line.size());
  return longest;
}

std::string on_terminal(const std::string& environment, const std::string& options = "", unsigned short columns = 0) {
  return shown_on_terminal("explain " + options, {.environment = words_of(environment)}, columns);
}

TEST(ExplainProgram, ColorsOnATerminalUnlessToldNotTo) {
  const std::string red = "\x1b[31m", cell = "\x1b[38;5;", block = "\xe2\x96\x80";
  EXPECT_TRUE(holds(on_terminal("TERM=xterm NO_COLOR="), red));
  EXPECT_FALSE(holds(on_terminal("TERM=xterm NO_COLOR=1"), "\x1b"));
  EXPECT_FALSE(holds(on_terminal("TERM=dumb NO_COLOR="), "\x1b"));
  EXPECT_TRUE(holds(on_terminal("TERM=xterm-256color NO_COLOR= COLORTERM=", "--heat"), cell));
  EXPECT_FALSE(holds(on_terminal("TERM=xterm-256color NO_COLOR=1 COLORTERM=", "--heat"), block));
  EXPECT_FALSE(holds(on_terminal("TERM=xterm NO_COLOR= COLORTERM=", "--heat"), block));
  EXPECT_TRUE(holds(on_terminal("TERM=xterm NO_COLOR= COLORTERM=truecolor", "--heat"), block));
  EXPECT_FALSE(holds(text_of("explain"), "\x1b"));
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
}

TEST(ExplainProgram, EveryScoreRuns) {
  const Folder folder;
  for (const std::string score : {"dot", "scaled-dot", "additive", "concat", "bilinear"}) {
    const Json json = folder.json("explain --json --score " + score);
    EXPECT_EQ(json["score"], score);
    EXPECT_LT(json["largest_difference_from_reference"].get<double>(), 1e-12) << score;
  }
}

TEST(ExplainProgram, DigitsLookAtDigits) {
  const Tensor digits = read_csv(QKV_SOURCE_DIR "/data/digits.csv");
  ASSERT_EQ(digits.shape(), (Dims{16, 64}));
  EXPECT_EQ(std::accumulate(digits.data<double>(), digits.data<double>() + 64, 0.0), 294);  // of the source's first
  const std::string line = "explain --input @data/digits.csv --init xavier --seed ", text = text_of(line + "1");
  expect_words(text, "inputs [16, 64] ... digit 0a attends most to digit  ... digit 5b attends most to digit ");
  EXPECT_EQ(text, text_of(line + "1"));
  EXPECT_NE(text, text_of(line + "2"));
  EXPECT_LE(longest_line(text), 98u);
}

TEST(ExplainProgram, IsAsWideAsAskedOrAsTheTerminal) {
  const Folder folder;  // however long its name is: a title names the file alone
  const std::string deep = folder / std::string(60, 'd'), digits = "--input " + deep + "/digits.csv ";
  std::filesystem::create_directory(deep);
  std::filesystem::copy(QKV_SOURCE_DIR "/data/digits.csv", deep);
  for (const std::size_t width : {60, 140}) {
    const std::size_t longest = longest_line(text_of("explain " + digits + "--width " + std::to_string(width)));
    EXPECT_TRUE(longest <= width && longest > width - 20) << longest;
  }
  EXPECT_GT(longest_line(text_of("explain --full " + digits)), 64u * 3);  // rows of 64 pixels
  EXPECT_FALSE(holds(text_of("explain --inputs 25 --dim 40 --full"), "..."));
  EXPECT_LE(longest_line(on_terminal("TERM=dumb", digits, 60)), 61u);  // a terminal ends lines with \r\n
  EXPECT_GT(longest_line(on_terminal("TERM=dumb", digits, 150)), 130u);
  EXPECT_LE(longest_line(on_terminal("TERM=dumb", digits, 0)), 99u);  // one that does not know its size
  EXPECT_LE(longest_line(on_terminal("TERM=dumb NO_COLOR=1 COLUMNS=50", "--heat --inputs 90", 120)), 51u);
}

// But for words that are longer themselves: command lines and matrices as JSON.
TEST(ExplainProgram, FitsNarrowTerminalsAndPipesOfACertainWidth) {
  const std::string picture = "explain --model @models/digits --image @data/example/seven.png";
  for (const std::string& line :
       {std::string("explain"), std::string("explain --inputs 4 --dim 6 --heads 2"), std::string("explain --heat"),
        std::string("explain --text hi"), std::string("explain --text hi --token 1"),
        std::string("explain --text hi --attention encoder --layer 0 --head 0"), picture}) {
    for (const std::size_t width : {30, 40, 61, 90}) {
      const std::string text = text_of("COLUMNS=" + std::to_string(width) + " " + line);
      for (const std::string& row : lines_of(text)) {
        if (row.size() > width) {
          EXPECT_EQ(row.find(' ', row.find_first_not_of(' ')), std::string::npos) << width << line << "\n" << row;
        }
      }
      if (line != picture) {
        EXPECT_EQ(text, text_of(line + " --width " + std::to_string(width)));
      }
    }
  }
}

TEST(ExplainProgram, DrawsStepsAsSvg) {
  const Folder folder;
  EXPECT_EQ(folder.text("explain --svg all.svg"), folder.text("explain"));
  EXPECT_TRUE(holds(slurp(folder / "all.svg"), "Step 8. Repeat for the rest"));
  folder.text("explain --svg one.svg --step 5");
  EXPECT_FALSE(holds(slurp(folder / "one.svg"), "Step 8."));
}

// The folder and the options; the rest is explain/head_survey_test.cc.
TEST(ExplainModel, ShowsOneHeadAndABiasWhereThereIsOne) {
  const TinyBert bert, distilbert("encoders/distilbert");
  const std::string one = bert.text("explain --model model --text 'a b a c' --layer 1 --head 2");
  EXPECT_TRUE(holds(one, "Layer 1, head 2\n") && !holds(one, "Step 1.")) << one;
  for (const std::string model : {"model", "@tests/golden/encoders/roberta"}) {
    const std::string line = "explain --model " + model + " --text 'cat' --layer 0 --head 0 --token 0";
    EXPECT_FALSE(holds(distilbert.text(line), "bias")) << model;
  }
}

}  // namespace
}  // namespace qkv::test
