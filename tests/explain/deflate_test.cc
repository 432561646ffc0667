// Bytes that are deflated are inflated to what they were, and take no more room than is said.
#include <gtest/gtest.h>

#include "explain/map_bytes.h"
#include "explain/report_page.h"
#include "qkv/random.h"

namespace qkv {
namespace {

TEST(Deflated, InflatesToWhatItWas) {
  Random random(1);
  for (const std::size_t size : {0u, 1u, 2u, 1000u, 512u * 512u}) {
    std::string same(size, 'a'), noise(size, '\0');
    for (char& byte : noise) byte = static_cast<char>(random.bits());
    for (const std::string& bytes : {same, noise}) {
      const std::string small = deflated(bytes);
      EXPECT_EQ(test::inflated(small, size), bytes);
      EXPECT_LE(small.size(), size + size / 2048 + 16);
    }
    if (size > 100) {
      EXPECT_LT(deflated(same).size(), size / 20);
    }
  }
}

}  // namespace
}  // namespace qkv
