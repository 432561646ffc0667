// Observer: receives named intermediates while a layer or model runs.
#pragma once

#include <string_view>

#include "qkv/tensor.h"

namespace qkv {

// Receives every named intermediate in the order of computation. The view is valid during the call only.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void receive(std::string_view name, const TensorView& value) = 0;
};

}  // namespace qkv
