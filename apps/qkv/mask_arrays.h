// The masks that options ask for, combined: one list for every command.
#pragma once

#include <optional>
#include <vector>

#include "qkv/attention/mask.h"

namespace qkv::app {

// Views that are not given ask for nothing.
struct MaskArrays {
  Mask window{};                                  // of window_options()
  std::optional<Align> causal{}, align{};         // align: where the call is not causal
  TensorView prefix{}, lengths{};                 // [batch]
  TensorView documents_query{}, documents_key{};  // key: if not those of the queries
  std::vector<TensorView> booleans{};

  Mask combined() const;
};

}  // namespace qkv::app
