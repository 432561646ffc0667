// Where commands find models and files: a folder, the cache of the Hugging Face hub, or beside the program.
#include "apps/program.h"

namespace qkv::test {
namespace {

namespace fs = std::filesystem;

const std::string kModel = QKV_TEST_DATA "/golden/translate/bart_text", kWelcome = " 'You are welcome'";

class FindModel : public ::testing::Test {
 protected:
  // A small model, as `name` in the folder.
  void link_model(const std::string& name, const std::string& model = kModel) {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    fs::create_symlink(model, folder_ / name);
  }
  // A cache in `hub` with it as org/en-es, at commit abc123.
  void make_cache(const std::string& hub) {
    const std::string entry = hub + "/models--org--en-es";
    link_model(entry + "/snapshots/abc123");
    fs::create_directories(folder_ / entry + "/refs");
    folder_.put(entry + "/refs/main", "abc123");
  }

  // What the program says, and its exit code, started by a shell in the folder; no other variable names a place.
  std::string run(const std::string& line, const std::string& program = QKV_PROGRAM) {
    const std::string shell = "cd '" + folder_.path() + "'; qkv() { '" + program + "' \"$@\"; }; unset HF_HUB_CACHE " +
                              "HF_HOME XDG_CACHE_HOME QKV_MODEL QKV_LANGUAGE_MODEL; (" + line +
                              ") >said 2>&1; echo $? >>said";
    EXPECT_EQ(std::system(shell.c_str()), 0);
    return slurp(folder_ / "said");
  }

  const Folder folder_;
};

TEST_F(FindModel, EveryVariableNamesTheCache) {
  for (const char* hub : {"hub", "x/huggingface/hub", "home/.cache/huggingface/hub"}) make_cache(hub);
  const std::string translate = " qkv translate --model org/en-es" + kWelcome;
  for (const std::string variables : {"HF_HUB_CACHE=hub HF_HOME=/nowhere", "HF_HOME=. XDG_CACHE_HOME=/nowhere",
                                      "XDG_CACHE_HOME=x HOME=/nowhere", "HOME=home"}) {
    EXPECT_EQ(run(variables + translate), "De nada\n0\n") << variables;
  }
  fs::create_directories(folder_ / "org/en-es");  // a folder comes first
  expect_words(run("HF_HUB_CACHE=hub" + translate), "qkv translate: org/en-es/config.json");
}

TEST_F(FindModel, EveryCommandLooksThereAndSaysSo) {
  for (const std::string command :
       {"translate --model org/no a", "embed --model org/no", "explain --model org/no --text a",
        "classify --model org/no --image a.png", "web --model org/no --out page.html",
        "train --config " QKV_SOURCE_DIR "/configs/classes.json --from org/no --train a --valid b --out c"}) {
    EXPECT_EQ(run("HF_HUB_CACHE=hub qkv " + command),
              "qkv " + words_of(command)[0] +
                  ": no such model: org/no is neither a folder nor in the Hugging Face cache "
                  "(hub/models--org--no/refs/main)\n4\n");
  }
}

TEST_F(FindModel, AFileIsNoModel) {
  folder_.put("a.gguf", "GGUF");
  EXPECT_EQ(run("qkv embed --model a.gguf"),
            "qkv embed: a.gguf: is a file; a model is a folder (qkv convert FILE.gguf FOLDER makes one)\n3\n");
  const std::string answer = run("qkv generate --model a.gguf hi");
  EXPECT_TRUE(answer.starts_with("qkv generate: a.gguf: ") && answer.ends_with("\n3\n")) << answer;
  folder_.put("a.bin", "GGUF");
  EXPECT_EQ(run("qkv generate --model a.bin hi"),
            "qkv generate: a.bin: is a file; a model is a folder, or a file whose name ends in .gguf\n3\n");
  EXPECT_EQ(run("qkv generate --model b.gguf hi"), "qkv generate: b.gguf: cannot read: No such file or directory\n4\n");
}

TEST_F(FindModel, ACacheThatIsNotWholeIsRefused) {
  const std::string entry = "hub/models--org--en-es", translate = "HF_HUB_CACHE=hub qkv translate --model org/en-es a";
  make_cache("hub");
  fs::remove(folder_ / entry + "/snapshots/abc123");
  EXPECT_EQ(run(translate),
            "qkv translate: no such model: org/en-es is not a folder, and its entry in the Hugging Face cache is "
            "incomplete (" +
                entry + "/snapshots/abc123)\n4\n");
  folder_.put(entry + "/refs/main", "../../..");
  EXPECT_EQ(run(translate), "qkv translate: " + entry + "/refs/main: is \"../../..\", not a commit\n3\n");
}

// A program as it was copied finds its own files beside it, wherever that is.
class Places : public FindModel {
 protected:
  Places() {
    fs::create_directories(place_ + "/bin");
    fs::copy_file(QKV_PROGRAM, place_ + "/bin/qkv");
  }
  std::string run_copy(const std::string& line) { return run(line, place_ + "/bin/qkv"); }

  const std::string place_ = folder_ / "a place";
};

TEST_F(Places, BesideTheProgramOrOfTheEnvironment) {
  const std::string missing = "qkv translate: the English-Spanish model not found: ",
                    advice = "; give a model's folder with --model or QKV_MODEL, or install qkv-en-es\n4\n";
  EXPECT_EQ(run_copy("qkv translate a"),
            missing + place_ + "/share/qkv/models/en-es, " + place_ + "/qkv_en_es" + advice);
  EXPECT_EQ(run_copy("QKV_MODEL='" + kModel + "' qkv translate" + kWelcome), "De nada\n0\n");
  link_model("a place/qkv_en_es");  // the Python package
  EXPECT_EQ(run_copy("qkv translate" + kWelcome), "De nada\n0\n");
  fs::remove(place_ + "/qkv_en_es");
  link_model("a place/share/qkv/models/en-es");
  EXPECT_EQ(run_copy("qkv translate" + kWelcome), "De nada\n0\n");
  expect_words(run_copy("qkv explain --text" + kWelcome), "encoder");
  EXPECT_EQ(run_copy("QKV_MODEL=/nowhere qkv translate a"), missing + "/nowhere" + advice);
  EXPECT_EQ(run_copy("qkv compare --quick --out out"),
            "qkv compare: the phrase book not found: " + place_ + "/share/qkv/phrases.es.tsv, " + place_ +
                "/bin/share/qkv/phrases.es.tsv; it comes with the program\n4\n");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(Places, TheModelThatWritesIsAnother) {
  const std::string verses = QKV_TEST_DATA "/golden/language/gpt2", begin = " --greedy --max-new-tokens 3 'In the'";
  const std::string missing = "qkv generate: the language model of verses not found: ",
                    advice = "; give a model's folder with --model or QKV_LANGUAGE_MODEL, or install qkv-verses\n4\n";
  const std::string text = run("qkv generate --model '" + verses + "'" + begin);
  EXPECT_TRUE(text.ends_with("\n0\n")) << text;
  EXPECT_EQ(run_copy("QKV_MODEL=/nowhere qkv generate a"),
            missing + place_ + "/share/qkv/models/verses, " + place_ + "/qkv_verses" + advice);
  EXPECT_EQ(run_copy("QKV_LANGUAGE_MODEL='" + verses + "' qkv generate" + begin), text);
  for (const std::string name : {"a place/qkv_verses", "a place/share/qkv/models/verses"}) {
    link_model(name, verses);
    EXPECT_EQ(run_copy("qkv generate" + begin), text) << name;
    fs::remove(folder_ / name);
  }
  EXPECT_EQ(run_copy("QKV_LANGUAGE_MODEL=/nowhere qkv generate a"), missing + "/nowhere" + advice);
}

}  // namespace
}  // namespace qkv::test
