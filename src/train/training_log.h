// The log of a training: one JSON object a line, and the curve of its losses as a picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "qkv/train/training.h"
#include "train/config/run_identity.h"

namespace qkv::training {

struct CurvePoint {
  std::int64_t step = 0;
  double loss = 0;
};

class TrainingLog {
 public:
  // Goes on with the log in `path`, of which lines up to `step` stay: those beyond are of updates that will come again,
  // and so is a change at `step`. What it says of the end of a finished training is not said again.
  TrainingLog(std::string path, std::int64_t step);

  void add(const TrainingProgress& progress);
  void add(const Validation& validation);
  void add(std::int64_t step, const std::vector<Change>& changes);

  // Both without label smoothing.
  const std::vector<CurvePoint>& training() const { return training_; }
  const std::vector<CurvePoint>& validation() const { return validation_; }

 private:
  void append(const std::string& line);

  std::string path_;
  std::vector<CurvePoint> training_, validation_;
};

// SVG with both curves over the steps, and the best step marked; the same bytes for the same points.
std::string loss_curve_svg(std::span<const CurvePoint> training, std::span<const CurvePoint> validation);

}  // namespace qkv::training
