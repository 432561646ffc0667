// Any bytes as choices for one call of attention: masks, biases, scores, types, strides and shapes, on one of the CPU
// targets. The result is that of the double reference, and with precision = reduced within its bound.
#include <cstdio>
#include <cstdlib>
#include <span>

#include "attention/forward/reduced_expectation.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const std::vector<std::string> targets = qkv::testing::usable_targets();
  qkv::select_target(targets[data[0] % targets.size()]);
  // Few pairs: most of the time shall go to combinations, not to sums.
  const qkv::testing::AttentionCase drawn(qkv::testing::Choices(std::span(data + 1, size - 1)), 3e3);
  const std::string found = qkv::testing::unlike_reference(drawn) + qkv::testing::reduced_outcome(drawn).found;
  if (found.empty()) return 0;
  std::fprintf(stderr, "on %s: %s\n%s", std::string(qkv::selected_target()).c_str(), drawn.describe().c_str(),
               found.c_str());
  std::abort();
}
