// The log of a training, line by line, also after a restart; and the picture of its losses.
#include "train/training_log.h"

#include <gtest/gtest.h>

#include <limits>

#include "io/files_for_test.h"
#include "train/loss_curve.h"

namespace qkv {
namespace {

using training::CurvePoint;
using training::TrainingLog;

TEST(TrainingLog, WritesOneObjectALine) {
  const test::TemporaryFolder folder;
  TrainingLog log(folder / "log", 0);
  log.add(TrainingProgress{.step = 5,
                           .epoch = 1,
                           .loss = 2.5,
                           .nll = 2.25,
                           .rate = 0.125,
                           .gradient_norm = 3,
                           .tokens_per_second = 64,
                           .peak_memory = 4096});
  log.add(Validation{.step = 5, .loss = 0.5, .perplexity = 2, .best = true});
  // exp(loss) leaves the doubles from a loss of 710 on.
  const Validation last{
      .step = 6, .loss = 1000, .perplexity = std::numeric_limits<double>::infinity(), .metric = {{"accuracy", 0.25}}};
  log.add(last);
  const std::string lines =
      R"({"step":5,"epoch":1,"loss":2.5,"nll":2.25,"rate":0.125,"gradient_norm":3.0,"tokens_per_second":64.0,)"
      R"("peak_memory":4096}
{"step":5,"valid_loss":0.5,"perplexity":2.0,"best":true}
{"step":6,"valid_loss":1000.0,"perplexity":"inf","accuracy":0.25,"best":false}
)";
  EXPECT_EQ(test::slurp(folder / "log"), lines);
  TrainingLog(folder / "log", 6).add(last);  // which it has
  EXPECT_EQ(test::slurp(folder / "log"), lines);
}

TEST(TrainingLog, GoesOnAfterTheStepOfACheckpoint) {
  const test::TemporaryFolder folder;
  const std::string kept = "{\"step\":1,\"loss\":3.5,\"nll\":3.0}\n{\"step\":2,\"valid_loss\":4.0}\n";
  const std::string path = folder.put("log", kept + "{\"step\":3,\"nll\":1.0}\n{\"step\":4,\"lo");
  const TrainingLog log(path, 2);
  EXPECT_EQ(test::slurp(path), kept);
  ASSERT_EQ(log.training().size(), 1u);
  EXPECT_EQ(log.training()[0].loss, 3);
  ASSERT_EQ(log.validation().size(), 1u);
  EXPECT_EQ(log.validation()[0].step, 2);
  EXPECT_TRUE(TrainingLog(path, 0).training().empty());  // a training from its beginning
  EXPECT_EQ(test::slurp(path), "");
}

TEST(TrainingLog, SaysWhatChanged) {
  const test::TemporaryFolder folder;
  const std::string path = folder.put("log", "{\"step\":2,\"nll\":3.0}\n");
  const std::string change = "{\"step\":2,\"changed\":{\"rate\":{\"before\":\"0.1\",\"now\":\"0.2\"}}}\n";
  const std::string before = test::slurp(path);
  TrainingLog(path, 2).add(2, {{"rate", "0.1", "0.2"}});
  EXPECT_EQ(test::slurp(path), before + change);
  TrainingLog(path, 2);  // begun again before a checkpoint: the change is yet to come
  EXPECT_EQ(test::slurp(path), before);
  TrainingLog(path, 2).add(2, {{"rate", "0.1", "0.2"}});
  TrainingLog(path, 3);
  EXPECT_EQ(test::slurp(path), before + change);
}

TEST(TrainingLog, RefusesWhatIsNoLog) {
  const test::TemporaryFolder folder;
  test::expect_refused({{"nonsense\n", "not valid JSON"}, {"{\"loss\": 1}\n", "step is missing"}}, "log",
                       [](const std::string& path) { TrainingLog(path, 1); });
}

TEST(LossCurve, PlacesPointsByStepAndLoss) {
  const std::vector<CurvePoint> training{{0, 4}, {50, 2}, {100, 0}}, validation{{100, 1}};
  const std::string svg = training::loss_curve_svg(training, validation);
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  // x from 52 to 704, y from 28 (the highest loss) to 324 (none).
  EXPECT_NE(svg.find("points=\"52.0,28.0 378.0,176.0 704.0,324.0 \""), std::string::npos) << svg;
  EXPECT_NE(svg.find("points=\"704.0,250.0 \""), std::string::npos) << svg;
  EXPECT_EQ(svg, training::loss_curve_svg(training, validation));
}

// The lowest validation, the first of equal ones.
TEST(LossCurve, MarksTheBestStep) {
  const std::vector<CurvePoint> training{{0, 4}, {100, 2}}, validation{{25, 2}, {50, 1}, {75, 3}, {100, 1}};
  const std::string svg = training::loss_curve_svg(training, validation);
  EXPECT_NE(svg.find("<circle cx=\"378.0\" cy=\"250.0\""), std::string::npos) << svg;
  EXPECT_NE(svg.find(">best: 1.0000 at step 50<"), std::string::npos) << svg;
}

TEST(LossCurve, OfNothingIsEmptyAxes) {
  const std::string svg = training::loss_curve_svg({}, {});
  EXPECT_EQ(svg.find("polyline"), std::string::npos);
  EXPECT_EQ(svg.find("circle"), std::string::npos);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

}  // namespace
}  // namespace qkv
