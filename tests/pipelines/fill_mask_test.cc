// Masked words against transformers' pipeline (golden/fill, made by make.py there).
#include "qkv/pipelines/fill_mask.h"

#include "io/files_for_test.h"

namespace qkv::test {
namespace {

using nlohmann::json;

TEST(FillMask, AgreesWithThePipelineOfTransformers) {
  const std::string golden = QKV_TEST_DATA "/golden/fill/";
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(golden + name, folder / name);
  }
  json tokenizer = json::parse(slurp(golden + "tokenizer.json"));
  const FillMask model = FillMask::load(golden);
  for (const json& each : json::parse(slurp(golden + "expected.json"))) {
    const auto found = model.fill(each["text"]);
    ASSERT_EQ(found.size(), each["masks"].size());
    for (std::size_t m = 0; m < found.size(); ++m) {
      ASSERT_EQ(found[m].size(), 5u);
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(found[m][i].label, each["masks"][m][i]["token_str"].get<std::string>());
        EXPECT_NEAR(found[m][i].probability, each["masks"][m][i]["score"].get<double>(), 1e-5);
      }
    }
  }
  const std::string text = "The [MASK] sat on the [MASK].";
  EXPECT_NEAR(FillMask::load(golden, WeightStorage::bf16).fill(text)[1][0].probability,
              model.fill(text)[1][0].probability, 0.05);
  EXPECT_EQ(message_of<std::invalid_argument>([&] { model.fill("The cat."); }), "fill: the text has no [MASK]");
  EXPECT_EQ(message_of<std::invalid_argument>([&] { model.fill("a a a a a a a a a a a a a a a a a [MASK]"); }),
            "fill: the text has 20 tokens, the model reads at most 18");
  tokenizer["added_tokens"] = json::array();
  folder.put("tokenizer.json", tokenizer.dump());
  EXPECT_TRUE(message_of<FormatError>([&] { FillMask::load(folder / ""); }).ends_with("\"[MASK]\" or \"<mask>\""));
}

}  // namespace
}  // namespace qkv::test
