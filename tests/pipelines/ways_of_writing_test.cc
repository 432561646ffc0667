// Twelve ways of cutting the work: the same bits, of models of random weights.
#include "core/share.h"
#include "models/models_for_test.h"
#include "qkv/pipelines/certify.h"

namespace qkv::test {
namespace {

TEST(WaysOfWriting, HaveTheSameBits) {
  const TemporaryFolder folder;
  std::set<std::string> digests;
  const std::vector<std::string> models{"gpt2", "llama_dynamic", "mistral", "gemma3"};
  for (const std::string& name : models) {
    const Generator generator = Generator::load(golden_path("language/" + name));
    std::vector<double> told;
    const ShareScope scope([&](double share) { told.push_back(share); });
    const std::vector<WayOfWriting> ways = ways_of_writing(generator, 60, folder / "session");
    EXPECT_EQ(ways.size(), 14u);
    EXPECT_EQ(told.size(), 74u);
    EXPECT_EQ(told.back(), 1);
    for (const WayOfWriting& way : ways) EXPECT_EQ(way.digest, ways.front().digest) << name << ", " << way.name;
    digests.insert(ways.front().digest);
    digests.insert(ways_of_writing(generator, 3, folder / "session").front().digest);
    EXPECT_FALSE(std::filesystem::exists(folder / "session"));
  }
  EXPECT_EQ(digests.size(), 2 * models.size());
}

}  // namespace
}  // namespace qkv::test
