// Training classifiers of pictures: what is read, how examples are made, that it learns and resumes, what it refuses.
#include "qkv/train/train_classifier.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/models/picture_classifier.h"
#include "train/classifier_config.h"
#include "train/labelled_pictures.h"
#include "train/picture_files.h"
#include "train/watcher.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;
using training::PictureFiles;

// Pixels as they are, without resizing: 0 to 1.
ImageProcessor unchanged() { return ImageProcessor({.resize = {}, .normalize = {}}); }

class ClassifierFiles : public ::testing::Test {
 protected:
  TrainClassifierFiles files() const {
    return {.config = folder_.put("config.json", test::kStripesConfig),
            .train = folder_.put("train.csv", test::stripes(60, 1)),
            .valid = folder_.put("valid.csv", test::stripes(20, 2)),
            .out = folder_ / "out"};
  }
  std::string refusal_of_csv(const std::string& text) const { return refusal_of(folder_.put("x.csv", text)); }
  std::string refusal_of(const std::string& path) const {
    std::string message =
        test::message_of<FormatError>([&] { training::read_labelled_pictures(path, 9, unchanged()); });
    const std::string here = folder_ / "";
    for (std::size_t at; (at = message.find(here)) != std::string::npos;) message.erase(at, here.size());
    return message;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(ClassifierFiles, RowsOfPixels) {
  const std::string path = folder_.put("x.csv", "12,0,9,3,6\n7,9,9,9,9\n12,0,0,0,0\n");
  const PictureFiles read = training::read_labelled_pictures(path, 9, unchanged());
  EXPECT_EQ(read.labels, (std::vector<std::string>{"7", "12"}));  // by number, not by text
  EXPECT_EQ(read.classes, (std::vector<std::int32_t>{1, 0, 1}));
  ASSERT_EQ(read.pictures.size(), 3u);
  EXPECT_EQ(read.pictures[0].shape(), (Dims{2, 2, 3}));
  // 3 of 9 is level 85 of 255, 6 is 170, in all three channels.
  const float expected[] = {0,          0,          0,          1,           1,           1,
                            85 / 255.f, 85 / 255.f, 85 / 255.f, 170 / 255.f, 170 / 255.f, 170 / 255.f};
  for (int i = 0; i < 12; ++i) EXPECT_FLOAT_EQ(read.pictures[0].data<float>()[i], expected[i]) << i;
}

TEST_F(ClassifierFiles, RefusesWhatBreaksARule) {
  EXPECT_EQ(refusal_of_csv("1,2,3\n"),
            "x.csv: a row must be a class and the pixels of a square picture, has 3 numbers");
  EXPECT_EQ(refusal_of_csv("1\n"), "x.csv: a row must be a class and the pixels of a square picture, has 1 numbers");
  EXPECT_EQ(refusal_of_csv("0,9\n1.5,0\n"),
            "x.csv: row 2 (from 1): the class is 1.5; it must be a whole number from 0 to 1000000");
  EXPECT_EQ(refusal_of_csv("-1,9\n"),
            "x.csv: row 1 (from 1): the class is -1; it must be a whole number from 0 to 1000000");
  EXPECT_EQ(refusal_of_csv("1,10\n"), "x.csv: row 1 (from 1): pixel 1 is 10; it must be 0 to 9, the largest");
  EXPECT_EQ(refusal_of_csv("1,nan\n"), "x.csv: row 1 (from 1): pixel 1 is nan; it must be 0 to 9, the largest");
  fs::create_directories(folder_ / "none");
  EXPECT_EQ(refusal_of(folder_ / "none"), "none: is empty; it must have one folder of pictures for each class");
  fs::create_directories(folder_ / "some/empty");
  EXPECT_EQ(refusal_of(folder_ / "some"), "some/empty: has no pictures of its class");
  folder_.put("some/empty/x.png", "no picture");
  EXPECT_NE(refusal_of(folder_ / "some").find("some/empty/x.png: "), std::string::npos);
  folder_.put("some/a.png", "");
  EXPECT_EQ(refusal_of(folder_ / "some"),
            "some/a.png: is not a folder; some must have one folder of pictures for each class");
  const PictureFiles three = training::read_labelled_pictures(folder_.put("y.csv", "1,0\n2,0\n3,0\n"), 9, unchanged());
  EXPECT_EQ(test::message_of<FormatError>([&] { training::with_labels(three, {"3", "1"}, "y.csv"); }),
            "y.csv: class \"2\" is not one of those to train on");
  EXPECT_EQ(training::with_labels(three, {"3", "2", "9", "1"}, "y.csv").classes, (std::vector<std::int32_t>{3, 1, 0}));
}

// By hand: a picture of 2 x 2 pixels in nine shifts.
TEST_F(ClassifierFiles, ExamplesAreShifted) {
  const PictureFiles read = training::read_labelled_pictures(
      folder_.put("x.csv", "5,1,2,3,4\n"), 255, ImageProcessor({.resize = {}, .rescale_factor = {}, .normalize = {}}));
  const training::PictureExamples examples(read, 1, {-1, -2, -3});
  ASSERT_EQ(examples.count(), 9);
  const std::vector<std::uint32_t> all{0, 1, 4, 5, 7, 8};
  const LabelledPictures batch = examples.collect(all);
  EXPECT_EQ(batch.labels, std::vector<std::int32_t>(6, 0));
  // The first channel: up and left, up, none, right, down, down and right.
  const float expected[6][4] = {{4, -1, -1, -1}, {3, 4, -1, -1}, {1, 2, 3, 4},
                                {-1, 1, -1, 3},  {-1, -1, 1, 2}, {-1, -1, -1, 1}};
  for (int b = 0; b < 6; ++b) {
    for (int i = 0; i < 4; ++i) {
      const float* pixel = batch.pictures.data<float>() + (b * 4 + i) * 3;
      EXPECT_EQ(pixel[0], expected[b][i]) << b << " " << i;
      EXPECT_EQ(pixel[2], expected[b][i] == -1 ? -3 : expected[b][i]) << b << " " << i;
    }
  }
}

TEST_F(ClassifierFiles, LearnsAndItsFolderClassifies) {
  test::Watcher watcher;
  const TrainingResult result = train_classifier(files(), {.observer = &watcher});
  ASSERT_TRUE(result.best_metric.has_value());
  EXPECT_EQ(result.best_metric->name, "accuracy");
  EXPECT_EQ(result.best_metric->value, 1.0);
  const PictureClassifier classifier = PictureClassifier::load(folder_ / "out");
  EXPECT_EQ(classifier.model().config().labels, (std::vector<std::string>{"0", "1"}));
  const Tensor rows = read_csv(folder_ / "valid.csv");
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const double* row = rows.data<double>() + i * rows.size(1);
    const auto found = classifier.classify(training::gray_picture(row + 1, {6, 6}, 9), 5);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].label, row[0] == 0 ? "0" : "1") << i;
    EXPECT_GE(found[0].probability, found[1].probability);
    EXPECT_NEAR(found[0].probability + found[1].probability, 1, 1e-12);
  }
}

TEST_F(ClassifierFiles, ResumesToTheSameBits) {
  TrainClassifierFiles whole = files(), cut = whole;
  whole.out = folder_ / "whole";
  train_classifier(whole);
  folder_.put("config.json",
              std::string(test::kStripesConfig)
                  .replace(std::string(test::kStripesConfig).find("\"steps\": 60"), 11, "\"steps\": 20"));
  cut.out = folder_ / "cut";
  train_classifier(cut);
  folder_.put("config.json", test::kStripesConfig);
  train_classifier(cut);
  EXPECT_EQ(test::slurp(folder_ / "cut/model.safetensors"), test::slurp(folder_ / "whole/model.safetensors"));
  EXPECT_EQ(test::slurp(folder_ / "cut/config.json"), test::slurp(folder_ / "whole/config.json"));
}

TEST_F(ClassifierFiles, OverwritesNothingOfOthers) {
  const TrainClassifierFiles own = files();
  fs::create_directories(folder_ / "out");
  folder_.put("out/config.json", "{}");
  const std::string message = test::message_of<std::invalid_argument>([&] { train_classifier(own); });
  EXPECT_NE(message.find("out/config.json: already exists"), std::string::npos) << message;
  EXPECT_EQ(test::slurp(folder_ / "out/config.json"), "{}");
}

TEST_F(ClassifierFiles, ConfigsAreRefusedByKey) {
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string config = test::kStripesConfig;
    config.replace(config.find(from), from.size(), to);
    const std::string path = folder_.put("config.json", config);
    return test::message_of<FormatError>([&] { training::read_classifier_config(path); }).substr(path.size() + 2);
  };
  EXPECT_EQ(refusal("\"patch\": 3", "\"patch\": 7"), "model.patch is 7, must be at most model.picture, 6");
  EXPECT_EQ(refusal("\"heads\": 2", "\"heads\": 3"), "model.heads is 3, must divide model_dim, 8");
  EXPECT_EQ(refusal("\"steps\": 60, ", ""), "training must have steps or epochs above 0");
  EXPECT_EQ(refusal("\"shift\": 1", "\"shfit\": 1"), "pictures.shfit is unknown; known are largest, shift");
  EXPECT_TRUE(is_classifier_config(folder_.put("c.json", test::kStripesConfig)));
  EXPECT_FALSE(is_classifier_config(folder_.put("c.json", "{\"model\": {}}")));
}

TEST(ClassifierKeys, AreThoseOfTheDocumentation) {
  const std::string page = test::slurp(QKV_SOURCE_DIR "/docs/training.md");
  EXPECT_NE(page.find(training::classifier_keys_markdown()), std::string::npos)
      << "docs/training.md must have this table:\n"
      << training::classifier_keys_markdown();
}

TEST(PictureClassifier, RefusesModelsWithoutAClassifier) {
  test::TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy_file(std::string(QKV_TEST_DATA "/golden/vit/vit_bare/") + name, folder / name);
  }
  ImageProcessor({}).save(folder / "");
  EXPECT_EQ(test::message_of<FormatError>([&] { PictureClassifier::load(folder / ""); }),
            folder / "" + ": the model has no classifier; classifier.weight is missing");
}

}  // namespace
}  // namespace qkv
