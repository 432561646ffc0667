// qkv plan: what it prints, as text and as JSON, and what it refuses.
#include <nlohmann/json.hpp>

#include "apps/program.h"
#include "qkv/attention/precision.h"
#include "qkv/files.h"

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
                           "because     bf16 is ", "because     soft cap"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
  }
}

TEST(Plan, EveryPass) {
  for (const char* pass : {"forward", "backward", "jvp", "double-backward"}) {
    const nlohmann::json object = nlohmann::json::parse(plan({"--pass", pass, "--json", "--causal", "top-left"}).out);
    EXPECT_GT(object["workspace"], 0) << pass;
    EXPECT_GT(object["skipped_tiles"], 0) << pass;
    const std::string least = std::to_string(object["workspace"].get<std::int64_t>() - 1);
    expect_message(plan({"--pass", pass, "--causal", "top-left", "--memory-limit", least}), 3, "qkv plan",
                   "memory_limit is " + least);
  }
  EXPECT_NE(plan({"--pass", "double-backward"}).out.find("kernel      double backward on"), std::string::npos);
  expect_message(plan({"--pass", "sideways"}), 2, "qkv plan", "--pass");
  expect_message(plan({"--pass", "jvp", "--soft-cap", "2"}), 3, "qkv plan", "soft_cap");
  expect_message(plan({"--pass", "backward", "--outputs", "weights"}), 2, "qkv plan", "--outputs");
}

TEST(Plan, SaysWhatOptionsCost) {
  const TempFolder folder;
  const auto file = [&](const char* name, const TensorView& array) {
    write_npy(folder / name, array);
    return folder / name;
  };
  std::vector<std::int32_t> alternating;
  for (std::int32_t i = 0; i < 128; ++i) alternating.push_back(i % 2);
  const Tensor keys = Tensor::of({1, 128}, alternating);
  const std::string ids = file("keys.npy", keys), of_queries = file("queries.npy", keys.view().slice(1, 0, 96));
  const std::string buckets = file("buckets.npy", Tensor::zeros({32, 4}));
  const std::string numbers = file("numbers.npy", Tensor::zeros({33, 4})),
                    rows = file("rows.npy", Tensor::zeros({33, 32}));
  const std::string slopes = file("slopes.npy", Tensor::zeros({4})), bias = file("bias.npy", Tensor::zeros({96, 128}));
  const std::string swin = file("swin.npy", Tensor::zeros({23 * 31, 4})), w = file("w.npy", Tensor::zeros({32, 32}));
  const struct {
    std::vector<std::string> options;
    const char* remark;
  } all[] = {{{"--alibi", slopes}, "ALiBi"},
             {{"--bias", bias}, "a bias"},
             {{"--t5-table", buckets}, "a table"},
             {{"--clipped-table", numbers}, "a table"},
             {{"--swin-table", swin, "--swin-window", "12,16"}, "Swin"},
             {{"--shaw-table", rows}, "Shaw"},
             {{"--documents", of_queries, "--documents-key", ids}, "documents"},
             {{"--dropout", "0.1"}, "dropout"},
             {{"--score", "bilinear", "--score-w", w}, "this score"},
             {{"--outputs", "weights,entropy"}, "a second pass"},
             {{"--outputs", "received"}, "a second pass"}};
  for (const auto& [options, remark] : all) {
    const Outcome outcome = plan(options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(remark), std::string::npos) << remark << " in " << outcome.out;
  }
  EXPECT_EQ(plan({"--sinks", slopes}).code, 0);
  EXPECT_EQ(plan({"--empty-rows", "nan"}).code, 0);
  expect_message(plan({"--outputs", "wight"}), 2, "qkv plan", "\"wight\" must be one of block-weights, entropy");
  expect_message(plan({"--documents-key", ids}), 2, "qkv plan", "--documents");
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
