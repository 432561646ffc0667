// qkv attend: statistics of the weights of the worked example, worked out by hand from its table of weights.
#include "apps/attend.h"

namespace qkv::test {
namespace {

TEST_F(Attend, StatisticsOfTheWorkedExample) {
  save_worked_example<float>();
  expect_success(attend({"--score", "dot", "--row-maximum", folder_ / "m.npy", "--entropy", folder_ / "e.npy",
                         "--top-keys", folder_ / "t.npy", "--top-weights", folder_ / "tw.npy", "--top", "4",
                         "--received", folder_ / "r.npy", "--block-weights", folder_ / "b.npy", "--blocks", "1"}));
  expect_array("m.npy", Dtype::f32, {3}, {4, 16, 12});
  // -sum of p log p over each row of weights.
  expect_array("e.npy", Dtype::f32, {3}, {.885381541, .0901727721, .367921935});
  expect_array("t.npy", Dtype::i64, {3, 4}, {1, 2, 0, -1, 1, 2, 0, -1, 1, 2, 0, -1});
  expect_array("tw.npy", Dtype::f32, {3, 4},
               {.468310531, .468310531, .0633789383, 0, .982007865, .0179861014, 6.03366485e-06, 0, .880536902,
                .119167711, 2.95387223e-04, 0});
  // Columns of the table of weights; nine weights that sum to 3.
  expect_array("r.npy", Dtype::f32, {3}, {.0636803591, 2.330855298, .605464343});
  expect_array("b.npy", Dtype::f32, {1, 1}, {1.0 / 3});
}

TEST_F(Attend, TopKeysAndTopWeightsBelongTogether) {
  save_worked_example<float>();
  const Outcome result = attend({"--top-keys", folder_ / "t.npy"});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("--top-weights"), std::string::npos);
}

}  // namespace
}  // namespace qkv::test
