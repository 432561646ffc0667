// Exponents of powers that are known.
#include <gtest/gtest.h>

#include <cmath>

#include "compare/cost.h"

namespace qkv::comparison {
namespace {

TEST(Growth, FindsTheExponentOfAPower) {
  for (const double exponent : {-1.0, 0.0, 1.5}) {
    const ComparedGrowth growth = growth_of(
        {64, 128, 1024}, [&](std::int64_t length) { return 3 * std::pow(static_cast<double>(length), exponent); });
    EXPECT_NEAR(growth.exponent, exponent, 1e-12);
  }
}

// The logarithms 0, 1, 2 of the lengths and 0, 0, 3 of the values: the line through them rises by 3/2.
TEST(Growth, FitsTheLogarithms) {
  EXPECT_NEAR(fitted_exponent({1, 10, 100}, {1, 1, 1000}), 1.5, 1e-12);
  EXPECT_EQ(fitted_exponent({1, 10, 100}, {1, 0, 1000}), 0);
}

}  // namespace
}  // namespace qkv::comparison
