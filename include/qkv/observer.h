/// \file
/// Observer: receives named intermediates while a layer or model runs.
#pragma once

#include <string_view>

#include "qkv/api.h"
#include "qkv/tensor.h"

namespace qkv {

/// Receives every named intermediate in the order of computation. The view is valid during the call only.
class QKV_API Observer {
 public:
  virtual ~Observer() = default;
  /// Intermediates that are not wanted may be skipped; weights and logits of all pairs, the largest, are.
  virtual bool wants(std::string_view /*name*/) const { return true; }
  virtual void receive(std::string_view name, const TensorView& value) = 0;
};

}  // namespace qkv
