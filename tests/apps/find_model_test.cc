// A model named ORG/NAME is opened from the local cache of the Hugging Face hub.
#include <cstdio>

#include "apps/program.h"

namespace qkv::test {
namespace {

namespace fs = std::filesystem;

class FindModel : public ::testing::Test {
 protected:
  // A cache in `hub` with the shipped model as org/en-es, at commit abc123.
  void make_cache(const std::string& hub) {
    const std::string entry = folder_ / hub + "/models--org--en-es";
    fs::create_directories(entry + "/refs");
    fs::create_directories(entry + "/snapshots");
    fs::create_symlink(QKV_SOURCE_DIR "/models/en-es", entry + "/snapshots/abc123");
    put(entry + "/refs/main", "abc123");
  }

  static void put(const std::string& path, const std::string& content) { std::ofstream(path) << content; }

  // What a command says, and its exit code; no other variable of the environment names a cache.
  std::string run(const std::string& variable, const std::string& command) {
    const std::string line = "cd '" + folder_ / "" + "' && env -u HF_HUB_CACHE -u HF_HOME -u XDG_CACHE_HOME " +
                             variable + " '" QKV_PROGRAM "' " + command + " 2>&1; echo $?";
    FILE* output = popen(line.c_str(), "r");
    std::string text;
    for (int c = fgetc(output); c != EOF; c = fgetc(output)) text += static_cast<char>(c);
    pclose(output);
    return text;
  }

  const TempFolder folder_;
};

constexpr const char* kTranslateFromHub = "translate --model org/en-es 'You are welcome'";

TEST_F(FindModel, EveryVariableNamesTheCache) {
  make_cache("hub");
  EXPECT_EQ(run("HF_HUB_CACHE=hub HF_HOME=/nowhere", kTranslateFromHub), "De nada\n0\n");
  EXPECT_EQ(run("HF_HOME=. XDG_CACHE_HOME=/nowhere", kTranslateFromHub), "De nada\n0\n");
  make_cache("x/huggingface/hub");
  EXPECT_EQ(run("XDG_CACHE_HOME=x HOME=/nowhere", kTranslateFromHub), "De nada\n0\n");
  make_cache("home/.cache/huggingface/hub");
  EXPECT_EQ(run("HOME=home", kTranslateFromHub), "De nada\n0\n");
}

TEST_F(FindModel, AFolderComesFirst) {
  make_cache("hub");
  fs::create_directories(folder_ / "org/en-es");
  EXPECT_EQ(run("HF_HUB_CACHE=hub", kTranslateFromHub).find("qkv translate: org/en-es/config.json"), 0u);
}

TEST_F(FindModel, EveryCommandLooksThereAndSaysSo) {
  for (const std::string command :
       {"translate --model org/no a", "embed --model org/no", "explain --model org/no --text a",
        "classify --model org/no --image a.png", "web --model org/no --out page.html"}) {
    EXPECT_EQ(
        run("HF_HUB_CACHE=hub", command),
        "qkv " + command.substr(0, command.find(' ')) +
            ": org/no is no folder, and not in the cache of the Hugging Face hub: hub/models--org--no/refs/main is "
            "not there\n4\n");
  }
}

TEST_F(FindModel, ACacheThatIsNotWholeIsRefused) {
  make_cache("hub");
  fs::remove(folder_ / "hub/models--org--en-es/snapshots/abc123");
  EXPECT_EQ(run("HF_HUB_CACHE=hub", kTranslateFromHub),
            "qkv translate: org/en-es is no folder, and not whole in the cache of the Hugging Face hub: "
            "hub/models--org--en-es/snapshots/abc123 is not there\n4\n");
  put(folder_ / "hub/models--org--en-es/refs/main", "../../..");
  EXPECT_EQ(run("HF_HUB_CACHE=hub", kTranslateFromHub),
            "qkv translate: hub/models--org--en-es/refs/main: is \"../../..\", no commit\n3\n");
}

}  // namespace
}  // namespace qkv::test
