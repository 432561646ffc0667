// Random calls against the double reference: every option in combination, on every target in turn. A failure names its
// seed; QKV_GRID_SEED=seed with --gtest_filter=AttentionGrid.Replay runs that one again.
#include "attention/attention_expectation.h"

namespace qkv {
namespace {

void expect_like_reference(const testing::AttentionCase& drawn) { EXPECT_EQ(testing::unlike_reference(drawn), ""); }

TEST(AttentionGrid, RandomCases) { testing::run_cases(0, 3000, expect_like_reference); }

TEST(AttentionGridSlow, RandomCases) { testing::run_cases(1'000'000, 100'000, expect_like_reference); }

TEST(AttentionGrid, Replay) { testing::replay_case(expect_like_reference); }

}  // namespace
}  // namespace qkv
