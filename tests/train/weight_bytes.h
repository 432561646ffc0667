// The weights of a model, to compare bit by bit.
#pragma once

#include <string>

#include "qkv/models/trainable.h"

namespace qkv::test {

// All of them, in order; they are f32.
inline std::string weight_bytes(const Trainable& model) {
  std::string bytes;
  model.visit([&](const std::string&, const Parameter& p) {
    bytes.append(reinterpret_cast<const char*>(p.value.data<float>()),
                 static_cast<std::size_t>(p.value.element_count()) * sizeof(float));
  });
  return bytes;
}

}  // namespace qkv::test
