// Training classifiers of pictures, another kind of example than pairs, validated by accuracy: what is read, how
// examples are made, that it learns and resumes, what it refuses.
#include "io/files_for_test.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/pipelines/picture_classifier.h"
#include "qkv/train/train_classifier.h"
#include "qkv/train/train_files.h"
#include "train/config/classifier_config.h"
#include "train/data/labelled_pictures.h"
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
  PictureFiles read(const std::string& name, const ImageProcessor& processor, double largest = 9) const {
    return training::read_labelled_pictures(folder_ / name, largest, processor);
  }

  const test::TemporaryFolder folder_;
};

TEST_F(ClassifierFiles, RowsOfPixels) {
  folder_.put("x.csv", "12,0,9,3,6\n7,9,9,9,9\n12,0,0,0,0\n");
  const PictureFiles found = read("x.csv", unchanged());
  EXPECT_EQ(found.labels, (std::vector<std::string>{"7", "12"}));  // by number, not by text
  EXPECT_EQ(found.classes, (std::vector<std::int32_t>{1, 0, 1}));
  ASSERT_EQ(found.pictures.size(), 3u);
  EXPECT_EQ(found.pictures[0].shape(), (Dims{2, 2, 3}));
  // 3 of 9 is level 85 of 255, 6 is 170, in all three channels.
  const float expected[] = {0, 1, 85 / 255.f, 170 / 255.f};
  for (int i = 0; i < 12; ++i) EXPECT_FLOAT_EQ(found.pictures[0].data<float>()[i], expected[i / 3]) << i;
}

TEST_F(ClassifierFiles, RefusesWhatBreaksARule) {
  const auto refusal = [&](const std::string& name) {
    std::string message = test::message_of<FormatError>([&] { read(name, unchanged()); });
    const std::string here = folder_ / "";
    for (std::size_t at; (at = message.find(here)) != std::string::npos;) message.erase(at, here.size());
    return message;
  };
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"1,2,3\n", "a row must be a class and the pixels of a square picture, has 3 numbers"},
           {"1\n", "a row must be a class and the pixels of a square picture, has 1 numbers"},
           {"0,9\n1.5,0\n", "row 2 (from 1): the class is 1.5; it must be a whole number from 0 to 1000000"},
           {"-1,9\n", "row 1 (from 1): the class is -1; it must be a whole number from 0 to 1000000"},
           {"1,10\n", "row 1 (from 1): pixel 1 is 10; it must be 0 to 9, the largest"},
           {"1,nan\n", "row 1 (from 1): pixel 1 is nan; it must be 0 to 9, the largest"}}) {
    folder_.put("x.csv", text);
    EXPECT_EQ(refusal("x.csv"), "x.csv: " + message);
  }
  fs::create_directories(folder_ / "none");
  EXPECT_EQ(refusal("none"), "none: is empty; it must have one folder of pictures for each class");
  fs::create_directories(folder_ / "some/empty");
  EXPECT_EQ(refusal("some"), "some/empty: has no pictures of its class");
  folder_.put("some/empty/x.png", "no picture");
  test::expect_contains(refusal("some"), "some/empty/x.png: ");
  folder_.put("some/a.png", "");
  EXPECT_EQ(refusal("some"), "some/a.png: is not a folder; some must have one folder of pictures for each class");
  folder_.put("y.csv", "1,0\n2,0\n3,0\n");
  const PictureFiles three = read("y.csv", unchanged());
  EXPECT_EQ(test::message_of<FormatError>([&] { training::with_labels(three, {"3", "1"}, "y.csv"); }),
            "y.csv: class \"2\" is not in the training data");
  EXPECT_EQ(training::with_labels(three, {"3", "2", "9", "1"}, "y.csv").classes, (std::vector<std::int32_t>{3, 1, 0}));
}

// By hand: a picture of 2 x 2 pixels in nine shifts.
TEST_F(ClassifierFiles, ExamplesAreShifted) {
  const ImageProcessor plain({.resize = {}, .rescale_factor = {}, .normalize = {}});
  folder_.put("x.csv", "5,1,2,3,4\n");
  folder_.put("y.csv", "5,1,2,3,5\n");
  const PictureFiles found = read("x.csv", plain, 255), others = read("y.csv", plain, 255);
  const training::PictureExamples examples(found, 1, {-1, -2, -3});
  ASSERT_EQ(examples.count(), 9);
  EXPECT_NE(examples.checksum(), training::PictureExamples(others, 1, {-1, -2, -3}).checksum());
  const std::vector<std::uint32_t> all{0, 1, 4, 5, 7, 8};
  const LabelledPictures batch = examples.collect(all);
  EXPECT_EQ(batch.labels, std::vector<std::int32_t>(6, 0));
  // The first channel: up and left, up, none, right, down, down and right.
  const float expected[6][4] = {{4, -1, -1, -1}, {3, 4, -1, -1}, {1, 2, 3, 4},
                                {-1, 1, -1, 3},  {-1, -1, 1, 2}, {-1, -1, -1, 1}};
  for (int i = 0; i < 24; ++i) {
    const float *pixel = batch.pictures.data<float>() + i * 3, wanted = expected[i / 4][i % 4];
    EXPECT_EQ(pixel[0], wanted) << i;
    EXPECT_EQ(pixel[2], wanted == -1 ? -3 : wanted) << i;
  }
}

TEST_F(ClassifierFiles, LearnsAndItsFolderClassifies) {
  const TrainingResult result = train_classifier(files());
  ASSERT_TRUE(result.best_metric.has_value());
  EXPECT_EQ(result.best_metric->name, "accuracy");
  test::expect_contains(test::slurp(folder_ / "out/log.jsonl"), ",\"accuracy\":1.0,");
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
  cut.out = folder_ / "cut";
  train_classifier(whole);
  for (const std::int64_t step : {7, 45}) {
    EXPECT_THROW(train_classifier(cut, test::Stopper(step).options()), Stopped);
  }
  train_classifier(cut);
  for (const char* name : {"model.safetensors", "config.json", "checkpoints/step-000000060/state.json"}) {
    EXPECT_EQ(test::slurp(cut.out + "/" + name), test::slurp(whole.out + "/" + name)) << name;
  }
}

TEST_F(ClassifierFiles, OverwritesNothingOfOthers) {
  const TrainClassifierFiles own = files();
  fs::create_directories(folder_ / "out");
  folder_.put("out/config.json", "{}");
  test::expect_refusal<std::invalid_argument>([&] { train_classifier(own); }, "out/config.json: already exists");
  EXPECT_EQ(test::slurp(folder_ / "out/config.json"), "{}");
}

TEST_F(ClassifierFiles, ConfigsAreRefusedByKey) {
  for (const auto& [from, to, message] : std::vector<std::array<std::string, 3>>{
           {"\"patch\": 3", "\"patch\": 7", "model.patch is 7, must be at most model.picture, 6"},
           {"\"heads\": 2", "\"heads\": 3", "model.heads is 3, must divide model_dim, 8"},
           {"\"steps\": 60, ", "", "training must have steps or epochs above 0"},
           {"\"shift\": 1", "\"shfit\": 1", "pictures.shfit is unknown; known are largest, shift"}}) {
    const std::string path = folder_.put("config.json", test::edited(test::kStripesConfig, from, to));
    EXPECT_EQ(test::message_of<FormatError>([&] { training::read_classifier_config(path); }), path + ": " + message);
  }
  EXPECT_EQ(trained_kind(folder_.put("c.json", test::kStripesConfig)), TrainedKind::pictures);
  EXPECT_EQ(trained_kind(folder_.put("c.json", "{\"model\": {}}")), TrainedKind::translator);
}

TEST(PictureClassifier, RefusesModelsWithoutAClassifier) {
  test::TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy_file(std::string(QKV_TEST_DATA "/golden/vit/vit_bare/") + name, folder / name);
  }
  ImageProcessor({}).save(folder / "");
  test::expect_refusal<FormatError>([&] { PictureClassifier::load(folder / ""); },
                                    folder / "" + ": the model has no classifier; classifier.weight is missing");
}

}  // namespace
}  // namespace qkv
