// Memory that is taken for a moment, and memory that is kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "compare/cost.h"
#include "sanitizers.h"

namespace qkv::comparison {
namespace {

constexpr std::int64_t kBytes = 64 << 20;

TEST(MemoryUse, SeesWhatWasTouchedAndFreed) {
  const auto growth = peak_growth([] {
    const auto block = std::make_unique<char[]>(kBytes);
    volatile char* touched = block.get();
    for (std::int64_t i = 0; i < kBytes; i += 4096) touched[i] = 1;
  });
  if (!growth) GTEST_SKIP() << "/proc does not say";
  EXPECT_GT(*growth, kBytes / 10 * 9);
}

TEST(MemoryUse, CountsWhatIsKept) {
#ifdef QKV_SANITIZED
  GTEST_SKIP() << "another allocator";
#endif
  const std::int64_t before = allocated_bytes();
  const auto block = std::make_unique<char[]>(kBytes);
  EXPECT_NEAR(static_cast<double>(allocated_bytes() - before), kBytes, kBytes / 10);
}

}  // namespace
}  // namespace qkv::comparison
