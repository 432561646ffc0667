// Who is told how much of long work is done.
#include "core/share.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace qkv {
namespace {

TEST(Share, IsToldToTheInnermostScopeOfTheThread) {
  std::vector<double> outer, inner;
  ShareTurns(1).next();  // to nobody
  {
    const ShareScope around([&](double share) { outer.push_back(share); });
    ShareTurns turns(4);
    turns.next();
    {
      const ShareScope within([&](double share) { inner.push_back(share); });
      turns.next();
    }
    std::thread([] { ShareTurns(1).next(); }).join();
    turns.next();
    turns.next();
  }
  ShareTurns(1).next();
  EXPECT_EQ(outer, (std::vector<double>{0.25, 0.75, 1}));
  EXPECT_EQ(inner, (std::vector<double>{0.5}));
}

}  // namespace
}  // namespace qkv
