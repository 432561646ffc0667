// qkv train on pictures and qkv classify, as a user runs them.
#include "apps/program.h"
#include "qkv/files.h"
#include "train/picture_files.h"

namespace qkv::test {
namespace {

class Classify : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<Folder>();
    folder_->put("config.json", kStripesConfig);
    folder_->put("train.csv", stripes(60, 1));
    folder_->put("valid.csv", stripes(20, 2));
    trained_ = folder_->run("train --config config.json --train train.csv --valid valid.csv --out model");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::unique_ptr<Folder> folder_;
  static Outcome trained_;
};
std::unique_ptr<Folder> Classify::folder_;
Outcome Classify::trained_;

TEST_F(Classify, TrainsAndCountsLabelledPictures) {
  EXPECT_EQ(trained_.code, 0) << trained_.err;
  expect_words(trained_.err, "step 60: validation loss 0. ... , accuracy 1.0000");
  expect_words(trained_.out, "model: 60 updates; its model is ");
  // Every picture under the other class.
  std::string swapped = slurp(*folder_ / "valid.csv");
  for (std::size_t at = 0; at < swapped.size(); at = swapped.find('\n', at) + 1) swapped[at] ^= 1;
  folder_->put("swapped.csv", swapped);
  expect_answers(
      *folder_, "classify --model model --largest 9 ",
      {{"--data valid.csv", 0, "20 of 20 right (100.00 %)\n"},
       {"--data swapped.csv --json", 0,
        "/right = 0 ... /pictures = 20 ... /wrong # 2 ... /wrong/0/label = \"0\" ... /wrong/0/found = \"1\""}});
}

TEST_F(Classify, OneLineForEachPicture) {
  const std::string line = "classify --model model --image @tests/golden/pictures/rgb8.png ",
                    picture = words_of(line)[4];
  const Words lines = lines_of(folder_->text(line + picture + " --top 1"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].starts_with(picture + ": ")) << lines[0];
  const Json result = folder_->json(line + "--json"), classes = result["classes"];
  const double share = classes[0]["probability"];
  EXPECT_EQ(lines[0], picture + ": " + classes[0]["label"].get<std::string>() + " (" +
                          std::to_string(std::lround(100 * share)) + " %)");
  EXPECT_EQ(result["image"], picture);
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_NEAR(classes[0]["probability"].get<double>() + classes[1]["probability"].get<double>(), 1, 1e-9);
}

TEST_F(Classify, ExplainShowsWhereTheModelLooks) {
  expect_answers(
      *folder_, "explain --model model --image @tests/golden/pictures/rgb8.png ",
      {{"--svg heads.svg", 0, "Where the class token looks: attention rollout over all layers, 2 x 2 patches\n"},
       {"--token 1,0 --json", 0, "/token = \"1,0\" ... /heads # 2"},
       {"--layer 0 --head 1 --token 0,1", 0, "class"},
       {"--token 9,9", 2, "--token: there is no token \"9,9\""}});
  EXPECT_TRUE(slurp(*folder_ / "heads.svg").starts_with("<svg "));
}

// The tokenizer and encoder of golden/rank with a head of golden/text_classes; what transformers' pipeline says.
TEST(ClassifyTexts, AgreesWithThePipelineOfTransformers) {
  const std::string golden = QKV_TEST_DATA "/golden/";
  const auto heads = read_safetensors(golden + "text_classes/heads.safetensors").tensors;
  const Folder folder;
  std::filesystem::copy(golden + "rank", folder / "model");
  const Json config = Json::parse(slurp(golden + "rank/config.json"));
  const auto put = [&](const Json& labels, const Json& problem) {
    Json changed = config;
    changed["id2label"] = Json::object();
    for (std::size_t i = 0; i < labels.size(); ++i) changed["id2label"][std::to_string(i)] = labels[i];
    changed["problem_type"] = problem;
    folder.put("model/config.json", changed.dump());
  };
  SafeTensors weights = read_safetensors(golden + "rank/model.safetensors");
  for (const Json& each : Json::parse(slurp(golden + "text_classes/expected.json"))) {
    put(each["labels"], each["problem_type"]);
    for (const char* name : {"classifier.weight", "classifier.bias"}) {
      weights.tensors[name] = heads.at(std::to_string(each["labels"].size()) + "/" + name);
    }
    write_safetensors(folder / "model/model.safetensors", weights);
    const Json& expected = each["classes"];
    const std::string text = each["text"];
    const Json found = folder.json("classify --model model --json '" + text + "'");
    EXPECT_EQ(found["text"], text);
    ASSERT_EQ(found["classes"].size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found["classes"][i]["label"], expected[i]["label"]);
      EXPECT_NEAR(found["classes"][i]["probability"].get<double>(), expected[i]["score"].get<double>(), 1e-5);
    }
  }
  put({"cat"}, nullptr);
  // 16 tokens with the special ones are as many as tokenizer_config.json allows.
  const auto cats = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += " cat";
    return "'" + text + "'";
  };
  const auto classes_of_cats = [&](int count) {
    return Json::parse(folder.run("classify --model model --json " + cats(count)).out)["classes"];
  };
  EXPECT_EQ(classes_of_cats(40), classes_of_cats(14));
  EXPECT_NE(classes_of_cats(13), classes_of_cats(14));
  EXPECT_EQ(folder.run("classify --model model " + cats(14)).err, "");
  EXPECT_EQ(folder.run("classify --model model " + cats(40) + " cat").err,
            "qkv classify: 26 tokens of 1 text are cut off; the model reads at most 16 of a text\n");
  expect_answers(folder, "classify --model model ",
                 {{"cat dog --top 1", 0, "cat: cat (7 ... %)\ndog: cat (7"},
                  {"cat --image x.png", 2, "give texts, --image or --data"},
                  {"m\xe4t", 2, "UTF-8"}});
  put({"cat", "dog"}, nullptr);
  expect_answers(folder, "classify ",
                 {{"--model model a", 3, "it must be [2, 12]"},
                  {"--model @tests/golden/bert/tiny a", 3, "ForSequenceClassification"}});
  put({"cat"}, "ranking");
  expect_answers(folder, "classify --model model a",
                 {{"", 3, "problem_type must be \"single_label_classification\", \"multi"}});
}

TEST_F(Classify, RefusesInOneLine) {
  expect_answers(*folder_, "",
                 {{"classify --model model --data valid.csv --largest 5", 3, "valid.csv: row 1 (from 1): pixel"},
                  {"train --config config.json --train train.csv --valid valid.csv --out other --tokenizer config.json",
                   2, "--tokenizer: applies to text models; the config has \"pictures\""}});
}

}  // namespace
}  // namespace qkv::test
