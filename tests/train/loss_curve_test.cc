// The picture of the losses of a training.
#include <gtest/gtest.h>

#include "train/training_log.h"

namespace qkv {
namespace {

using training::CurvePoint;

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
