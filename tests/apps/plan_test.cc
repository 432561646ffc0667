// qkv plan: what it prints, as text and as JSON.
#include "apps/program.h"
#include "qkv/attention/precision.h"
#include "qkv/files.h"

namespace qkv::test {
namespace {

const std::string kSizes = "plan --heads 4 --kv-heads 2 --q-len 96 --k-len 128 --head-dim 32 --threads 1 ";

TEST(Plan, MasksSkipTiles) {
  const Folder folder;
  Tensor visible = Tensor::zeros({96, 128}, Dtype::boolean);
  for (std::int64_t i = 0; i < 96; ++i) visible.view().at<bool>({i, i}) = true;
  write_npy(folder / "mask.npy", visible);
  const std::string json = kSizes + "--json ";
  const Json object = folder.json(json);
  const Json windowed = folder.json(json + "--window 8,0 --lengths 64");
  EXPECT_GT(windowed["skipped_tiles"], 0);
  EXPECT_LT(windowed["operations"], object["operations"]);
  const Json masked = folder.json(json + "--mask mask.npy");
  EXPECT_EQ(masked["tiles"], object["tiles"]);
  EXPECT_GT(masked["skipped_tiles"].get<int>(), masked["tiles"].get<int>() / 2);
}

TEST(Plan, Precision) {
  const std::string line = kSizes + "--precision reduced --json";
  EXPECT_EQ(Json::parse(text_of(line)).at("precision"), has_reduced_precision() ? "reduced" : "exact");
  EXPECT_EQ(Json::parse(text_of("info --json")).at("reduced_precision"), has_reduced_precision());
}

TEST(Plan, EveryPass) {
  const Folder folder;
  for (const std::string pass : {"forward", "backward", "jvp", "double-backward"}) {
    const std::string line = kSizes + "--causal top-left --pass " + pass;
    const Json object = folder.json(line + " --json");
    EXPECT_GT(object["workspace"], 0) << pass;
    EXPECT_GT(object["skipped_tiles"], 0) << pass;
    const std::string least = std::to_string(object["workspace"].get<std::int64_t>() - 1);
    expect_message(folder.run(line + " --memory-limit " + least), 2, "qkv plan", "memory_limit is " + least);
  }
}

}  // namespace
}  // namespace qkv::test
