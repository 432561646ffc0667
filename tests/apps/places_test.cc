// A copy of the program finds its own files beside it, wherever that is.
#include <cstdio>

#include "apps/program.h"

namespace qkv::test {
namespace {

namespace fs = std::filesystem;

const std::string kModel = QKV_SOURCE_DIR "/models/en-es";

// A program as it was copied, and nothing beside it.
class Places : public ::testing::Test {
 protected:
  Places() {
    fs::create_directories(folder_ / "a place/bin");
    fs::copy_file(QKV_PROGRAM, program_);
  }

  void link(const std::string& file, const std::string& name) {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    fs::create_symlink(file, folder_ / name);
  }

  // Standard output and error of the copy, run by a shell in a folder without anything.
  std::string run(const std::string& arguments, const std::string& environment = "QKV_MODEL=") {
    const std::string command = "cd / && env '" + environment + "' '" + program_ + "' " + arguments + " 2>&1; echo $?";
    FILE* output = popen(command.c_str(), "r");
    std::string text;
    for (int c = fgetc(output); c != EOF; c = fgetc(output)) text += static_cast<char>(c);
    pclose(output);
    return text;
  }

  const TempFolder folder_;
  const std::string program_ = folder_ / "a place/bin/qkv";
};

constexpr const char* kTranslate = "translate 'You are welcome'";

TEST_F(Places, InstalledModel) {
  link(kModel, "a place/share/qkv/models/en-es");
  EXPECT_EQ(run(kTranslate), "De nada\n0\n");
  EXPECT_NE(run("explain --text 'You are welcome'").find("encoder"), std::string::npos);
}

TEST_F(Places, PythonPackage) {
  link(kModel, "a place/qkv_en_es");
  EXPECT_EQ(run(kTranslate), "De nada\n0\n");
}

TEST_F(Places, ModelOfTheEnvironment) {
  EXPECT_EQ(run(kTranslate, "QKV_MODEL=" + kModel), "De nada\n0\n");
  link(kModel, "a place/share/qkv/models/en-es");
  EXPECT_EQ(run(kTranslate, "QKV_MODEL=/nowhere"),
            "qkv translate: the model English to Spanish is not there: /nowhere; name a model's folder by --model or "
            "QKV_MODEL, or install qkv-en-es\n4\n");
}

TEST_F(Places, NoModel) {
  const std::string place = folder_ / "a place";
  EXPECT_EQ(run(kTranslate), "qkv translate: the model English to Spanish is not there: " + place +
                                 "/share/qkv/models/en-es, " + place +
                                 "/qkv_en_es; name a model's folder by --model "
                                 "or QKV_MODEL, or install qkv-en-es\n4\n");
}

TEST_F(Places, NoPhrases) {
  EXPECT_EQ(run("compare --quick --out '" + (folder_ / "out") + "'"),
            "qkv compare: the phrase book is not there: " + (folder_ / "a place") + "/share/qkv/phrases.es.tsv, " +
                (folder_ / "a place") + "/bin/share/qkv/phrases.es.tsv; it comes with the program\n4\n");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

}  // namespace
}  // namespace qkv::test
