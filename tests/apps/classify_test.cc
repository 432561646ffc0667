// qkv train on pictures and qkv classify, as a user runs them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/program.h"
#include "train/picture_files.h"

namespace qkv::test {
namespace {

class Classify : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    folder_->put("config.json", kStripesConfig);
    folder_->put("train.csv", stripes(60, 1));
    folder_->put("valid.csv", stripes(20, 2));
    trained_ = run_program(train("model"));
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return *folder_ / name; }
  static std::vector<std::string> train(const std::string& out) {
    return {"train", "--config", path("config.json"), "--train", path("train.csv"), "--valid", path("valid.csv"),
            "--out", path(out)};
  }
  static std::string picture() { return QKV_TEST_DATA "/golden/pictures/rgb8.png"; }

  static std::unique_ptr<TempFolder> folder_;
  static Outcome trained_;
};
std::unique_ptr<TempFolder> Classify::folder_;
Outcome Classify::trained_;

TEST_F(Classify, TrainsAndSaysHowManyAreRight) {
  EXPECT_EQ(trained_.code, 0) << trained_.err;
  EXPECT_NE(trained_.err.find("step 60: validation loss 0."), std::string::npos) << trained_.err;
  EXPECT_NE(trained_.err.find(", accuracy 1.0000"), std::string::npos) << trained_.err;
  EXPECT_NE(trained_.out.find("model: 60 updates; its model is "), std::string::npos) << trained_.out;
}

TEST_F(Classify, CountsLabelledPictures) {
  const std::vector<std::string> command{"classify",  "--model", path("model"), "--data", path("valid.csv"),
                                         "--largest", "9"};
  const Outcome text = run_program(command);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out, "20 of 20 right (100.00 %)\n");
  // Every picture under the other class.
  std::string swapped = contents(path("valid.csv"));
  for (std::size_t at = 0; at < swapped.size(); at = swapped.find('\n', at) + 1)
    swapped[at] = swapped[at] == '0' ? '1' : '0';
  std::vector<std::string> wrong = command;
  wrong[4] = folder_->put("swapped.csv", swapped);
  wrong.push_back("--json");
  const Outcome json = run_program(wrong);
  ASSERT_EQ(json.code, 0) << json.err;
  const auto result = nlohmann::json::parse(json.out);
  EXPECT_EQ(result["right"], 0);
  EXPECT_EQ(result["pictures"], 20);
  EXPECT_EQ(result["wrong"].size(), 2u);
  EXPECT_EQ(result["wrong"][0]["label"], "0");
  EXPECT_EQ(result["wrong"][0]["found"], "1");
}

TEST_F(Classify, OneLineForEachPicture) {
  const Outcome text =
      run_program({"classify", "--model", path("model"), "--image", picture(), picture(), "--top", "1"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 2);
  EXPECT_EQ(text.out.rfind(picture() + ": ", 0), 0u) << text.out;
  const Outcome json = run_program({"classify", "--model", path("model"), "--image", picture(), "--json"});
  const auto result = nlohmann::json::parse(json.out);
  EXPECT_EQ(result["image"], picture());
  ASSERT_EQ(result["classes"].size(), 2u);
  EXPECT_NEAR(result["classes"][0]["probability"].get<double>() + result["classes"][1]["probability"].get<double>(), 1,
              1e-9);
}

// The model that ships, on digits of the data that it comes from.
TEST(Digits, AreClassifiedByTheModelThatShips) {
  const std::string model = QKV_SOURCE_DIR "/models/digits";
  const Outcome seven =
      run_program({"classify", "--model", model, "--image", QKV_SOURCE_DIR "/data/example/seven.png", "--top", "1"});
  EXPECT_EQ(seven.code, 0) << seven.err;
  EXPECT_NE(seven.out.find("seven.png: 7 "), std::string::npos) << seven.out;
  // data/digits.csv has 0 to 9, then 0 to 5; the model has not seen every fifth, and takes the 5 for a 9.
  std::istringstream lines(contents(QKV_SOURCE_DIR "/data/digits.csv"));
  std::string rows;
  int digit = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    if (digit % 5 != 0) rows += std::to_string(digit % 10) + "," + line + "\n";
    ++digit;
  }
  const TempFolder folder;
  const Outcome all =
      run_program({"classify", "--model", model, "--data", folder.put("digits.csv", rows), "--largest", "16"});
  EXPECT_EQ(all.out, "12 of 12 right (100.00 %)\n") << all.err;
}

TEST_F(Classify, ExplainShowsWhereTheModelLooks) {
  const std::string svg = path("heads.svg");
  const Outcome text = run_program({"explain", "--model", path("model"), "--image", picture(), "--svg", svg});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("Where the class token looks: attention rollout over all layers, 2 x 2 patches\n"),
            std::string::npos)
      << text.out;
  EXPECT_TRUE(contents(svg).starts_with("<svg "));
  const Outcome json =
      run_program({"explain", "--model", path("model"), "--image", picture(), "--token", "1,0", "--json"});
  const auto result = nlohmann::json::parse(json.out);
  EXPECT_EQ(result["token"], "1,0");
  EXPECT_EQ(result["heads"].size(), 2u);
  const Outcome steps = run_program(
      {"explain", "--model", path("model"), "--image", picture(), "--layer", "0", "--head", "1", "--token", "0,1"});
  EXPECT_EQ(steps.code, 0) << steps.err;
  EXPECT_NE(steps.out.find("class"), std::string::npos) << steps.out;
}

TEST_F(Classify, RefusesInOneLine) {
  const auto refusal = [](const std::vector<std::string>& command, int code) {
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(refusal({"classify", "--model", path("model")}, 2).find("give --image or --data"), std::string::npos);
  EXPECT_NE(refusal({"classify", "--model", path("model"), "--image", path("train.csv")}, 3).find("train.csv: "),
            std::string::npos);
  for (const char* command : {"classify", "explain"}) {
    EXPECT_NE(refusal({command, "--model", QKV_TEST_DATA "/golden/bert/tiny", "--image", picture()}, 3)
                  .find("model_type is \"bert\"; the supported Vision Transformers are \"vit\" and \"dinov2\""),
              std::string::npos);
  }
  EXPECT_NE(refusal({"classify", "--model", path("model"), "--data", path("valid.csv"), "--largest", "5"}, 3)
                .find("valid.csv: row 1 (from 1): pixel"),
            std::string::npos);
  EXPECT_NE(refusal({"explain", "--model", path("model"), "--text", "x"}, 2).find("--text: the model reads pictures"),
            std::string::npos);
  EXPECT_NE(refusal({"explain", "--model", path("model")}, 2).find("--model: needs --text or --image"),
            std::string::npos);
  EXPECT_NE(refusal({"explain", "--model", path("model"), "--image", picture(), "--token", "9,9"}, 3).find("9,9"),
            std::string::npos);
  auto with_tokenizer = train("other");
  with_tokenizer.insert(with_tokenizer.end(), {"--tokenizer", path("config.json")});
  EXPECT_NE(refusal(with_tokenizer, 2).find("--tokenizer: is for translation models; the config has \"pictures\""),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("other")));
}

}  // namespace
}  // namespace qkv::test
