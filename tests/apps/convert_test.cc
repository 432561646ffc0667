// qkv convert: a folder from a file; what it becomes is models/gguf_folder_test.cc's.
#include "apps/program.h"

namespace qkv::test {
namespace {

const std::string kLlama = QKV_TEST_DATA "/golden/gguf/llama.gguf";

TEST(Convert, WritesAFolderThatIsNew) {
  const Folder folder;
  EXPECT_EQ(folder.text("convert " + kLlama + " model/"), "model: llama, 20 tensors, 286 tokens\n");
  EXPECT_EQ(folder.text("tokenizer encode --tokenizer model/tokenizer.json", {.input = "a <|im_end|>\n"}),
            folder.text("tokenizer encode --tokenizer " + kLlama, {.input = "a <|im_end|>\n"}));
  expect_message(folder.run("convert " + kLlama + " model"), 2, "qkv convert",
                 "folder: model already exists; give a new one");
  expect_message(folder.run("convert model/config.json other"), 3, "qkv convert", "model/config.json: not a GGUF file");
  expect_message(folder.run("convert none.gguf other"), 4, "qkv convert", "none.gguf: cannot read");
  expect_message(folder.run("convert " + kLlama + " none/other"), 4, "qkv convert", "cannot write");
  expect_message(folder.run("convert " + kLlama + " other", {.file_size = 20000}), 4, "qkv convert", "cannot write");
  EXPECT_FALSE(std::filesystem::exists(folder / "other"));
}

}  // namespace
}  // namespace qkv::test
