// Where commands find models and files: a folder, the cache of the Hugging Face hub, or beside the program.
#include "apps/program.h"

namespace qkv::test {
namespace {

namespace fs = std::filesystem;

const std::string kWelcome = " 'You are welcome'";

class FindModel : public ::testing::Test {
 protected:
  // A file or folder of the source, as `name` in the folder.
  void link(const std::string& source, const std::string& name) {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    fs::create_symlink(source, folder_ / name);
  }
  // A cache in `hub` with the shipped model as org/en-es, at commit abc123.
  void make_cache(const std::string& hub) {
    const std::string entry = hub + "/models--org--en-es";
    link(QKV_SOURCE_DIR "/models/en-es", entry + "/snapshots/abc123");
    fs::create_directories(folder_ / entry + "/refs");
    folder_.put(entry + "/refs/main", "abc123");
  }

  // What the program says, and its exit code, started by a shell in the folder; no other variable names a place.
  std::string run(const std::string& variables, const std::string& arguments, const char* program = QKV_PROGRAM) {
    const std::string line = "cd '" + folder_.path() + "' && env -u HF_HUB_CACHE -u HF_HOME -u XDG_CACHE_HOME " +
                             "QKV_MODEL= " + variables + " '" + program + "' " + arguments +
                             " >said 2>&1; echo $? >>said";
    EXPECT_EQ(std::system(line.c_str()), 0);
    return slurp(folder_ / "said");
  }

  const Folder folder_;
};

TEST_F(FindModel, EveryVariableNamesTheCache) {
  for (const char* hub : {"hub", "x/huggingface/hub", "home/.cache/huggingface/hub"}) make_cache(hub);
  const std::string translate = "translate --model org/en-es" + kWelcome;
  for (const char* variables : {"HF_HUB_CACHE=hub HF_HOME=/nowhere", "HF_HOME=. XDG_CACHE_HOME=/nowhere",
                                "XDG_CACHE_HOME=x HOME=/nowhere", "HOME=home"}) {
    EXPECT_EQ(run(variables, translate), "De nada\n0\n") << variables;
  }
  fs::create_directories(folder_ / "org/en-es");  // a folder comes first
  EXPECT_TRUE(run("HF_HUB_CACHE=hub", translate).starts_with("qkv translate: org/en-es/config.json"));
}

TEST_F(FindModel, EveryCommandLooksThereAndSaysSo) {
  for (const std::string command :
       {"translate --model org/no a", "embed --model org/no", "explain --model org/no --text a",
        "classify --model org/no --image a.png", "web --model org/no --out page.html"}) {
    EXPECT_EQ(run("HF_HUB_CACHE=hub", command),
              "qkv " + words_of(command)[0] +
                  ": org/no is no folder, and not in the cache of the Hugging Face hub: "
                  "hub/models--org--no/refs/main is not there\n4\n");
  }
}

TEST_F(FindModel, ACacheThatIsNotWholeIsRefused) {
  const std::string entry = "hub/models--org--en-es", translate = "translate --model org/en-es a";
  make_cache("hub");
  fs::remove(folder_ / entry + "/snapshots/abc123");
  EXPECT_EQ(run("HF_HUB_CACHE=hub", translate),
            "qkv translate: org/en-es is no folder, and not whole in the cache of the Hugging Face hub: " + entry +
                "/snapshots/abc123 is not there\n4\n");
  folder_.put(entry + "/refs/main", "../../..");
  EXPECT_EQ(run("HF_HUB_CACHE=hub", translate),
            "qkv translate: " + entry + "/refs/main: is \"../../..\", no commit\n3\n");
}

// A program as it was copied finds its own files beside it, wherever that is.
class Places : public FindModel {
 protected:
  Places() {
    fs::create_directories(folder_ / "a place/bin");
    fs::copy_file(QKV_PROGRAM, place_ + "/bin/qkv");
  }
  std::string run_copy(const std::string& arguments, const std::string& variables = "") {
    return run(variables, arguments, (place_ + "/bin/qkv").c_str());
  }

  const std::string place_ = folder_ / "a place";
};

TEST_F(Places, ModelsBesideTheProgramOrOfTheEnvironment) {
  const std::string model = QKV_SOURCE_DIR "/models/en-es", what = "qkv translate: the model English to Spanish",
                    advice = "; name a model's folder by --model or QKV_MODEL, or install qkv-en-es\n4\n";
  EXPECT_EQ(run_copy("translate a"),
            what + " is not there: " + place_ + "/share/qkv/models/en-es, " + place_ + "/qkv_en_es" + advice);
  EXPECT_EQ(run_copy("translate" + kWelcome, "QKV_MODEL='" + model + "'"), "De nada\n0\n");
  link(model, "a place/qkv_en_es");  // the Python package
  EXPECT_EQ(run_copy("translate" + kWelcome), "De nada\n0\n");
  fs::remove(place_ + "/qkv_en_es");
  link(model, "a place/share/qkv/models/en-es");
  EXPECT_EQ(run_copy("translate" + kWelcome), "De nada\n0\n");
  EXPECT_TRUE(holds(run_copy("explain --text" + kWelcome), "encoder"));
  EXPECT_EQ(run_copy("translate a", "QKV_MODEL=/nowhere"), what + " is not there: /nowhere" + advice);
}

TEST_F(Places, NoPhrases) {
  EXPECT_EQ(run_copy("compare --quick --out out"), "qkv compare: the phrase book is not there: " + place_ +
                                                       "/share/qkv/phrases.es.tsv, " + place_ +
                                                       "/bin/share/qkv/phrases.es.tsv; it comes with the program\n4\n");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

}  // namespace
}  // namespace qkv::test
