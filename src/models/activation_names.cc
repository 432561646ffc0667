// Lists the names of activations once.
#include "models/activation_names.h"

#include <algorithm>

namespace qkv::inline models {

const std::vector<std::pair<std::string, Activation>>& activation_names() {
  static const std::vector<std::pair<std::string, Activation>> names = {
      {"relu", Activation::relu},          {"gelu", Activation::gelu},
      {"gelu_new", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"swish", Activation::silu},         {"silu", Activation::silu}};
  return names;
}

const std::string& name_of(Activation activation) {
  const auto& names = activation_names();
  return std::find_if(names.begin(), names.end(), [&](const auto& named) { return named.second == activation; })->first;
}

}  // namespace qkv::inline models
