// The names of activations in configs of models and of trainings.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "qkv/activation.h"

namespace qkv::inline models {

// The first name of an activation is the one that is written.
const std::vector<std::pair<std::string, Activation>>& activation_names();
const std::string& name_of(Activation activation);

}  // namespace qkv::inline models
