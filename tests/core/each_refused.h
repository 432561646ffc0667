// Calls that must be refused.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <vector>

namespace qkv::test {

inline void expect_each_refused(const std::vector<std::function<void()>>& calls) {
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_THROW(calls[i](), std::invalid_argument) << "call " << i;
}

}  // namespace qkv::test
