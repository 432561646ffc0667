// Asks whether to stop in a loop of many small turns.
#pragma once

#include <cstddef>

#include "core/stop.h"

namespace qkv::inline core {

// Asks at every 4096th turn, each of which is as little work as a token, or a row of a table.
class StopTurns {
 public:
  void next() {
    if (++turns_ % 4096 == 0) check_stop();
  }

 private:
  std::size_t turns_ = 0;
};

}  // namespace qkv::inline core
