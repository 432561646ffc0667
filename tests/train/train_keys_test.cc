// The table of keys: that the documentation has it, that it says what the reader does, and what a user sees of it.
#include <gtest/gtest.h>

#include <algorithm>

#include "io/files_for_test.h"
#include "train/train_config.h"

namespace qkv {
namespace {

using training::train_keys;
using training::TrainKey;

TEST(TrainKeys, AreThoseOfTheDocumentation) {
  const std::string page = test::slurp(QKV_SOURCE_DIR "/docs/training.md");
  const std::string begin = "<!-- keys -->\n", end = "<!-- end of keys -->";
  const std::size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  EXPECT_EQ(page.substr(from + begin.size(), to - from - begin.size()), training::train_keys_markdown())
      << "docs/training.md must have this table";
}

TEST(TrainKeys, ThoseOfARecurrentTranslatorToo) {
  const std::string page = test::slurp(QKV_SOURCE_DIR "/docs/training.md");
  const std::string begin = "<!-- keys of a recurrent translator -->\n", end = "<!-- end of keys of a recurrent";
  const std::size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  EXPECT_EQ(page.substr(from + begin.size(), to - from - begin.size()), training::seq2seq_keys_markdown())
      << "docs/training.md must have this table";
}

TEST(TrainKeys, SayEverything) {
  for (const TrainKey& key : train_keys()) {
    EXPECT_TRUE(key.meaning.ends_with('.')) << key.name;
    EXPECT_FALSE(key.type.empty()) << key.name;
    EXPECT_FALSE(key.unit.empty()) << key.name;
    EXPECT_EQ(
        std::count_if(train_keys().begin(), train_keys().end(),
                      [&](const TrainKey& other) { return other.section == key.section && other.name == key.name; }),
        1)
        << key.name;
    EXPECT_NE(training::train_keys_text().find("\n  " + key.name + " "), std::string::npos) << key.name;
  }
}

// A config that says each default of the table, and one that says nothing beyond what is required, mean the same.
TEST(TrainKeys, DefaultsAreThoseOfTheReader) {
  const test::TemporaryFolder folder;
  const auto read = [&](const std::string& model, const std::string& tokenizer, const std::string& training) {
    return training::read_train_config(folder.put("c", R"({"model": {"model_dim": 8, "heads": 2, "ff_dim": 16,
"encoder_layers": 1, "decoder_layers": 2)" + model + R"(}, "tokenizer": {"vocab": 300)" +
                                                           tokenizer + R"(}, "training": {"steps": 5,
"rate": 1)" + training + "}}"));
  };
  std::string model, tokenizer, training;
  for (const TrainKey& key : train_keys()) {
    const bool of_another_key = key.otherwise.find("model.") != std::string::npos;
    if (key.otherwise.empty() || of_another_key || key.name == "steps") continue;
    (key.section == "model"       ? model
     : key.section == "tokenizer" ? tokenizer
                                  : training) += ", \"" + key.name + "\": " + key.otherwise;
  }
  const training::TrainConfig all = read(model, tokenizer, training), none = read("", "", "");
  for (const TrainKey& key : train_keys()) EXPECT_EQ(key.show(all), key.show(none)) << key.name;
}

}  // namespace
}  // namespace qkv
