// Pictures that a small Vision Transformer tells apart in a second: stripes across and stripes down, in gray.
#pragma once

#include "qkv/random.h"

namespace qkv::test {

// `count` rows of CSV: 0 for stripes across, 1 for stripes down, then 6 x 6 pixels from 0 to 9 with some noise.
inline std::string stripes(int count, std::uint64_t seed) {
  Random random(seed);
  const auto below = [&](int n) { return static_cast<int>(random.uniform() * n); };
  std::string text;
  for (int i = 0; i < count; ++i) {
    const int down = below(2), phase = below(2);
    text += std::to_string(down);
    for (int y = 0; y < 6; ++y) {
      for (int x = 0; x < 6; ++x) {
        const bool white = ((down == 1 ? x : y) + phase) % 2 == 0;
        text += "," + std::to_string(white ? 9 - below(3) : below(3));
      }
    }
    text += "\n";
  }
  return text;
}

inline constexpr const char* kStripesConfig = R"({
 "model": {"picture": 6, "patch": 3, "model_dim": 8, "heads": 2, "ff_dim": 16, "layers": 1, "dropout": 0.05},
 "pictures": {"largest": 9, "shift": 1},
 "training": {"steps": 60, "batch": 16, "rate": 0.02, "warmup": 5, "clip": 1, "log_every": 10, "validate_every": 20}
})";

}  // namespace qkv::test
