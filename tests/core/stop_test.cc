// When a stop token is asked, and what a stopped call throws.
#include "core/stop.h"

#include <gtest/gtest.h>

#include <thread>

#include "qkv/error.h"

namespace qkv {
namespace {

TEST(Stop, ThrowsOnceTheTokenAsksForIt) {
  std::stop_source source;
  const std::stop_token token = source.get_token();
  EXPECT_NO_THROW(check_stop(nullptr));
  EXPECT_NO_THROW(check_stop(&token));
  source.request_stop();
  EXPECT_THROW(check_stop(&token), Stopped);
  EXPECT_NO_THROW(check_stop(nullptr));
}

TEST(Stop, CountsTheChecksOfItsThread) {
  const std::int64_t before = stop_checks();
  for (int i = 0; i < 5; ++i) check_stop(nullptr);
  EXPECT_EQ(stop_checks() - before, 5);
  std::thread([] {
    check_stop(nullptr);
    EXPECT_EQ(stop_checks(), 1);
  }).join();
  EXPECT_EQ(stop_checks() - before, 5);
}

}  // namespace
}  // namespace qkv
