// The targets: which ones there are, and that the one asked for is the one that runs.
#include "qkv/target.h"

#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "ops/matmul/matmul_panel.h"
#include "simd/dispatch.h"

namespace qkv {
namespace {

// The plainest target: the portable one wherever the compiler may not count on vectors anyway.
std::string last_target() { return targets().back().name; }

TEST(Target, ListsThePlainestOneLast) {
  const std::vector<Target> list = targets();
  ASSERT_FALSE(list.empty());
  EXPECT_TRUE(list.back().usable);
#if defined(__x86_64__) && !defined(__SSE4_1__)
  EXPECT_EQ(list.back().name, "portable");
  EXPECT_EQ(list.back().lanes, 1);
#endif
  EXPECT_TRUE(testing::has_target(selected_target()));
  for (const Target& target : list) {
    EXPECT_EQ(target.selected, target.name == selected_target()) << target.name;
    EXPECT_TRUE(target.usable || !target.selected) << target.name;
  }
}

TEST(Target, TheForcedOneRuns) {
  MultiplyPanel<float> previous = nullptr;
  for (const Target& target : targets()) {
    if (!target.usable) continue;
    SCOPED_TRACE(target.name);
    select_target(target.name);
    EXPECT_EQ(selected_target(), target.name);
    // Only code of this target has vectors of this length, and each target has a kernel of its own, but that tiles and
    // pairs of bf16 are additions to avx512.
    EXPECT_EQ(panel_columns<float>(), 3 * target.lanes);
    EXPECT_NE(multiply_panel<float>(), previous);
    previous = target.name == "amx" || target.name == "avx512-bf16" ? nullptr : multiply_panel<float>();
  }
  select_target("");
}

TEST(Target, DefaultIsTheEnvironmentsOrTheBest) {
  const char* wanted = std::getenv("QKV_TARGET");
  select_target(last_target());
  select_target("");
  EXPECT_EQ(selected_target(), wanted != nullptr && *wanted != '\0' ? wanted : testing::usable_targets().front());
}

std::string refusal(const char* name) {
  return test::message_of<std::invalid_argument>([&] { select_target(name); });
}

TEST(Target, UnknownNameIsRefusedAndChangesNothing) {
  const std::string before = selected_target(), message = refusal("abacus");
  EXPECT_EQ(message.find("target \"abacus\" is not usable here; usable: "), 0u) << message;
  EXPECT_NE(message.find(last_target()), std::string::npos) << message;
  EXPECT_EQ(selected_target(), before);
}

// Only a build of few targets can name one that it lacks, of its own kind of CPU.
TEST(Target, OneThatWasNotBuiltIsRefusedWithTheWayToIt) {
#ifndef __x86_64__
  GTEST_SKIP() << "these are targets of x86";
#endif
  const std::vector<Target> built = targets();
  for (const char* name : {"avx2", "sse4"}) {
    if (std::any_of(built.begin(), built.end(), [&](const Target& target) { return target.name == name; })) continue;
    const std::string message = refusal(name);
    EXPECT_NE(message.find("is not in this build; usable: "), std::string::npos) << message;
    EXPECT_NE(message.find("cmake -DQKV_TARGETS=all"), std::string::npos) << message;
  }
}

TEST(Target, EnvironmentNamesTheTargetOrIsRefused) {
  const char* before = std::getenv("QKV_TARGET");
  const std::string saved = before == nullptr ? "" : before;
  setenv("QKV_TARGET", last_target().c_str(), 1);
  select_target("");
  EXPECT_EQ(selected_target(), last_target());
  setenv("QKV_TARGET", "abacus", 1);
  EXPECT_THROW(select_target(""), std::invalid_argument);
  setenv("QKV_TARGET", saved.c_str(), 1);
  select_target("");
}

TEST(Target, PeakIsMeasuredForBothTypes) {
  EXPECT_GT(peak_gflops(Dtype::f32), 0.0);
  EXPECT_GT(peak_gflops(Dtype::f64), 0.0);
  EXPECT_GT(peak_gflops(Dtype::bf16), 0.0);
  EXPECT_THROW(peak_gflops(Dtype::i32), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
