// The losses of a training as a picture.
#pragma once

#include <span>
#include <string>

#include "train/training_log.h"

namespace qkv::training {

// SVG with both curves over the steps, and the best step marked; the same bytes for the same points.
std::string loss_curve_svg(std::span<const CurvePoint> training, std::span<const CurvePoint> validation);

}  // namespace qkv::training
