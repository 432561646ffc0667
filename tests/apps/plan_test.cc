// qkv plan: what it prints, as text and as JSON.
#include "apps/program.h"
#include "qkv/attention/precision.h"
#include "qkv/files.h"

namespace qkv::test {
namespace {

const std::string kSizes = "plan --heads 4 --kv-heads 2 --q-len 96 --k-len 128 --head-dim 32 --threads 1 ";

TEST(Plan, Json) {
  const Folder folder;
  Tensor visible = Tensor::zeros({96, 128}, Dtype::boolean);
  for (std::int64_t i = 0; i < 96; ++i) visible.view().at<bool>({i, i}) = true;
  write_npy(folder / "mask.npy", visible);
  const std::string json = kSizes + "--json ";
  const Json object = folder.json(json);
  EXPECT_EQ(object["kernel"], "prefill");
  EXPECT_EQ(object["threads"], 1);
  EXPECT_EQ(object["skipped_tiles"], 0);
  EXPECT_EQ(object["operations"], 2.0 * 4 * 96 * 128 * 64);
  EXPECT_EQ(object["bytes"], 4.0 * (2 * 4 * 96 * 32 + 2 * 2 * 128 * 32));
  const Json windowed = folder.json(json + "--window 8,0 --lengths 64");
  EXPECT_GT(windowed["skipped_tiles"], 0);
  EXPECT_LT(windowed["operations"], object["operations"]);
  const Json masked = folder.json(json + "--mask mask.npy");
  EXPECT_EQ(masked["tiles"], object["tiles"]);
  EXPECT_GT(masked["skipped_tiles"].get<int>(), masked["tiles"].get<int>() / 2);
}

TEST(Plan, Precision) {
  const auto planned = [](const std::string& options, const std::string& target) {
    return run_program(kSizes + "--precision reduced " + options, {.environment = {"QKV_TARGET=" + target}}).out;
  };
  EXPECT_EQ(Json::parse(planned("--json", "")).at("precision"), has_reduced_precision() ? "reduced" : "exact");
  EXPECT_EQ(Json::parse(planned("--json", "portable")).at("precision"), "exact");
  EXPECT_TRUE(holds(planned("", "portable"), "because     precision reduced is computed exactly: target portable"));
  EXPECT_EQ(Json::parse(run_program("info --json").out).at("reduced_precision"), has_reduced_precision());
}

TEST(Plan, EveryPass) {
  const Folder folder;
  for (const std::string pass : {"forward", "backward", "jvp", "double-backward"}) {
    const std::string line = kSizes + "--causal top-left --pass " + pass;
    const Json object = folder.json(line + " --json");
    EXPECT_GT(object["workspace"], 0) << pass;
    EXPECT_GT(object["skipped_tiles"], 0) << pass;
    const std::string least = std::to_string(object["workspace"].get<std::int64_t>() - 1);
    expect_message(folder.run(line + " --memory-limit " + least), 3, "qkv plan", "memory_limit is " + least);
  }
}

TEST(Plan, SaysWhatOptionsCost) {
  const Folder folder;
  std::vector<std::int32_t> alternating;
  for (std::int32_t i = 0; i < 128; ++i) alternating.push_back(i % 2);
  const Tensor keys = Tensor::of({1, 128}, alternating);
  write_npy(folder / "keys.npy", keys);
  write_npy(folder / "queries.npy", keys.view().slice(1, 0, 96));
  for (const Dims& shape : {Dims{4}, {32, 4}, {33, 4}, {33, 32}, {96, 128}, {23 * 31, 4}, {32, 32}}) {
    std::string name = "zeros";
    for (const std::int64_t size : shape) name += "_" + std::to_string(size);
    write_npy(folder / (name + ".npy"), Tensor::zeros(shape));
  }
  const struct {
    const char* options;
    Words parts;
  } cases[] = {{"--soft-cap 5 --dtype bf16 --causal bottom-right",
                {"kernel      prefill on", "1 thread\n", "tiles  ", "operations  ", "workspace  ",
                 "because     bf16 is ", "because     soft cap"}},
               {"--pass double-backward", {"kernel      double backward on"}},
               {"--alibi zeros_4.npy", {"ALiBi"}},
               {"--bias zeros_96_128.npy", {"a bias"}},
               {"--t5-table zeros_32_4.npy", {"a table"}},
               {"--clipped-table zeros_33_4.npy", {"a table"}},
               {"--swin-table zeros_713_4.npy --swin-window 12,16", {"Swin"}},
               {"--shaw-table zeros_33_32.npy", {"Shaw"}},
               {"--documents queries.npy --documents-key keys.npy", {"documents"}},
               {"--dropout 0.1", {"dropout"}},
               {"--score bilinear --score-w zeros_32_32.npy", {"this score"}},
               {"--outputs weights,entropy", {"a second pass"}},
               {"--outputs received", {"a second pass"}},
               {"--sinks zeros_4.npy", {}},
               {"--empty-rows nan", {}}};
  for (const auto& [options, parts] : cases) {
    const std::string text = folder.text(kSizes + options);
    for (const std::string& part : parts) EXPECT_TRUE(holds(text, part)) << part << " in " << text;
  }
}

}  // namespace
}  // namespace qkv::test
