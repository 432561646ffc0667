// The norm of all gradients of a model together.
#pragma once

#include "qkv/models/trainable.h"

namespace qkv::training {

// The square root of the sum of all squares, summed in double in one fixed order.
double gradient_norm(const Trainable& model);

}  // namespace qkv::training
