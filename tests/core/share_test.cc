// Who is told how much of long work is done.
#include "core/share.h"

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

TEST(Share, OfTurnsInsideATurnIsAPartOfItWhereItIsDivided) {
  std::vector<double> told;
  const ShareScope scope([&](double share) { told.push_back(share); });
  const auto run = [&](ShareTurns::Division division) {
    told.clear();
    ShareTurns turns(2, division);
    turns.next();
    {
      ShareTurns inner(4);
      inner.next();
      ShareTasks(2).begun(1);  // its turn is whole
    }
    ShareTasks(4).begun(3);
    turns.next();
    return told;
  };
  EXPECT_EQ(run(ShareTurns::divided), (std::vector<double>{0.5, 0.625, 0.875, 1}));
  EXPECT_EQ(run(ShareTurns::whole), (std::vector<double>{0.5, 1}));
  told.clear();
  ShareTasks(4).begun(1);  // of no turn
  EXPECT_TRUE(told.empty());
}

}  // namespace
}  // namespace qkv
