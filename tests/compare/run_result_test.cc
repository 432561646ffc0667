// Results of trainings, out to a file and in again.
#include <gtest/gtest.h>

#include "compare/run.h"
#include "io/files_for_test.h"
#include "qkv/error.h"

namespace qkv::comparison {
namespace {

TEST(RunResult, ComesBackAsItWas) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "result.json";
  const RunResult result{.parameters = 24000,
                         .asked = 7,
                         .accuracy = {{1, 0.1}, {128, 1.0 / 3}},
                         .gradients = {{1, 1}, {128, 1e-43}},
                         .norms = {.largest = 12.5, .median = 2}};
  write_result(path, "this", result);
  const auto found = read_result(path, "this");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->parameters, 24000);
  EXPECT_EQ(found->asked, 7);
  EXPECT_EQ(found->accuracy, result.accuracy);
  EXPECT_EQ(found->gradients, result.gradients);
  EXPECT_EQ(found->norms.largest, 12.5);
  EXPECT_EQ(found->norms.median, 2);
}

TEST(RunResult, OfAnotherRunIsRefused) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "result.json";
  EXPECT_FALSE(read_result(path + ".missing", "this"));
  write_result(path, "that", {});
  EXPECT_THROW(read_result(path, "this"), std::invalid_argument);
}

}  // namespace
}  // namespace qkv::comparison
