// qkv plan: what it prints, as text and as JSON, and what it refuses.
#include <nlohmann/json.hpp>

#include "apps/program.h"
#include "qkv/files.h"
#include "qkv/precision.h"

namespace qkv::test {
namespace {

const std::vector<std::string> kSizes = {"plan",    "--heads", "4",          "--kv-heads", "2",         "--q-len", "96",
                                         "--k-len", "128",     "--head-dim", "32",         "--threads", "1"};

Outcome plan(std::vector<std::string> more) {
  std::vector<std::string> arguments = kSizes;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments);
}

TEST(Plan, Json) {
  const Outcome outcome = plan({"--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json object = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(object["kernel"], "prefill");
  EXPECT_EQ(object["threads"], 1);
  EXPECT_EQ(object["skipped_tiles"], 0);
  EXPECT_EQ(object["operations"], 2.0 * 4 * 96 * 128 * 64);
  EXPECT_EQ(object["bytes"], 4.0 * (2 * 4 * 96 * 32 + 2 * 2 * 128 * 32));
  const nlohmann::json windowed = nlohmann::json::parse(plan({"--json", "--window", "8,0", "--lengths", "64"}).out);
  EXPECT_GT(windowed["skipped_tiles"], 0);
  EXPECT_LT(windowed["operations"], object["operations"]);
}

TEST(Plan, Mask) {
  const TempFolder folder;
  Tensor visible = Tensor::zeros({96, 128}, Dtype::boolean);
  for (std::int64_t i = 0; i < 96; ++i) visible.view().at<bool>({i, i}) = true;
  write_npy(folder / "mask.npy", visible);
  const nlohmann::json masked = nlohmann::json::parse(plan({"--json", "--mask", folder / "mask.npy"}).out);
  EXPECT_EQ(masked["tiles"], nlohmann::json::parse(plan({"--json"}).out)["tiles"]);
  EXPECT_GT(masked["skipped_tiles"].get<int>(), masked["tiles"].get<int>() / 2);
  expect_message(plan({"--mask", folder / "none.npy"}), 4, "qkv plan", "none.npy");
}

TEST(Plan, Precision) {
  const auto planned = [](std::vector<std::string> more, const char* target) {
    std::vector<std::string> arguments = kSizes;
    arguments.insert(arguments.end(), {"--precision", "reduced"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments, {.environment = {std::string("QKV_TARGET=") + target}});
  };
  const nlohmann::json here = nlohmann::json::parse(planned({"--json"}, "").out);
  EXPECT_EQ(here["precision"].get<std::string>(), has_reduced_precision() ? "reduced" : "exact");
  EXPECT_EQ(nlohmann::json::parse(planned({"--json"}, "portable").out)["precision"].get<std::string>(), "exact");
  EXPECT_NE(planned({}, "portable").out.find("because     precision reduced is computed exactly: target portable"),
            std::string::npos);
  const nlohmann::json info = nlohmann::json::parse(run_program({"info", "--json"}).out);
  EXPECT_EQ(info["reduced_precision"].get<bool>(), has_reduced_precision());
  expect_message(plan({"--precision", "half"}), 2, "qkv plan", "--precision");
}

TEST(Plan, Text) {
  const Outcome outcome = plan({"--soft-cap", "5", "--dtype", "bf16", "--causal", "bottom-right"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"kernel      prefill on", "1 thread\n", "tiles  ", "operations  ", "workspace  ",
                           "because     bf16 is widened", "because     soft cap"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
  }
}

TEST(Plan, Refuses) {
  expect_message(plan({"--memory-limit", "1000"}), 3, "qkv plan", "memory_limit is 1000");
  expect_message(plan({"--memory-limit", "0"}), 2, "qkv plan", "--memory-limit");
  expect_message(plan({"--lengths", "1,2"}), 3, "qkv plan", "lengths has 2 entries for a batch of 1");
  expect_message(plan({"--lengths", "x"}), 2, "qkv plan", "--lengths");
  expect_message(run_program({"plan", "--heads", "4", "--kv-heads", "3", "--q-len", "1", "--k-len", "1"}), 2,
                 "qkv plan", "--kv-heads");
  expect_message(run_program({"plan", "--k-len", "1"}), 2, "qkv plan", "--q-len");
}

}  // namespace
}  // namespace qkv::test
