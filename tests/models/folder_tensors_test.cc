// Weights in one file or several: the same model, and every way in which an index and its files can disagree.
#include "models/folder_tensors.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/models/bert.h"

namespace qkv {
namespace {

const std::string kTiny = QKV_TEST_DATA "/golden/bert/tiny";
constexpr const char* kIndexFile = "model.safetensors.index.json";

std::string file_name(std::size_t number) { return fmt::format("model-0000{}-of-00003.safetensors", number); }

// The tiny model with its tensors dealt to three files in turn, and what says so.
class Sharded {
 public:
  Sharded() {
    folder.put("config.json", test::slurp(kTiny + "/config.json"));
    std::size_t turn = 0;
    for (const auto& [name, tensor] : read_safetensors(kTiny + "/model.safetensors").tensors) {
      const std::string file = file_name(++turn % 3 + 1);
      files[file].tensors[name] = tensor;
      map[name] = file;
    }
  }

  void write() const {
    for (const auto& [file, content] : files) write_safetensors(folder / file, content);
    folder.put(kIndexFile, nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump());
  }
  std::string refusal() const {
    write();
    const std::string message = test::message_of<FormatError>([&] { Bert::check(folder / ""); });
    return message.substr(message.rfind("//") + 2);
  }

  test::TemporaryFolder folder;
  std::map<std::string, SafeTensors> files;
  std::map<std::string, std::string> map;  // from the tensor to its file
};

const std::string kBias = "bert.encoder.layer.1.output.dense.bias";

Tensor hidden(const std::string& folder) {
  return Bert::load(folder).forward({{3, 1, 4}, {0, 0, 1}, offsets_of(std::vector<std::int64_t>{3})});
}

TEST(FolderTensors, SeveralFilesAreTheModelOfOne) {
  const Sharded model;
  model.write();
  EXPECT_EQ(Bert::check(model.folder / "").vocab, 30);
  EXPECT_TRUE(testing::same_bits(hidden(model.folder / ""), hidden(kTiny)));
  EXPECT_EQ(
      weight_files(model.folder / "."),
      (std::vector<std::string>{model.folder / "./model.safetensors.index.json", model.folder / ("./" + file_name(1)),
                                model.folder / ("./" + file_name(2)), model.folder / ("./" + file_name(3))}));
}

// As in transformers, whose from_pretrained() looks for model.safetensors first.
TEST(FolderTensors, OneFileGoesBeforeAnIndex) {
  const test::TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"}) {
    folder.put(name, test::slurp(kTiny + "/" + name));
  }
  folder.put(kIndexFile, "no index");
  EXPECT_TRUE(testing::same_bits(hidden(folder / ""), hidden(kTiny)));
  EXPECT_EQ(weight_files(folder / "."), std::vector<std::string>{folder / "./model.safetensors"});
}

TEST(FolderTensors, FilesMustHaveWhatTheIndexLists) {
  Sharded missing;
  const std::string file = missing.map.at(kBias);
  missing.files.at(file).tensors.erase(kBias);
  EXPECT_EQ(missing.refusal(),
            file + ": tensor \"" + kBias + "\" is missing, which " + kIndexFile + " lists in this file");
  Sharded extra;
  extra.files.at(file).tensors["extra\n"] = Tensor::zeros({1});
  EXPECT_EQ(extra.refusal(), file + ": tensor \"extra\\x0a\" is not one that " + kIndexFile + " lists in this file");
  Sharded elsewhere;  // listed in another file than the one that has it
  elsewhere.map.at(kBias) = file_name(file == file_name(1) ? 2 : 1);
  EXPECT_NE(elsewhere.refusal().find("tensor \"" + kBias + "\" is "), std::string::npos);
}

TEST(FolderTensors, EveryMessageNamesTheFileOfTheTensor) {
  Sharded shape;
  const std::string file = shape.map.at(kBias);
  shape.files.at(file).tensors.at(kBias) = Tensor::zeros({13});
  EXPECT_EQ(shape.refusal(), file + ": tensor \"" + kBias + "\" is [13]; it must be [12]");
  Sharded missing;
  missing.files.at(file).tensors.erase(kBias);
  missing.map.erase(kBias);
  EXPECT_EQ(missing.refusal(), std::string(kIndexFile) + ": tensor \"" + kBias + "\" [12] is missing");
  Sharded extra;
  extra.files.at(file).tensors["extra"] = Tensor::zeros({1});
  extra.map["extra"] = file;
  EXPECT_EQ(extra.refusal(), file + ": tensor \"extra\" is not part of this model");
}

TEST(FolderTensors, AFileThatIsMissingIsNamed) {
  Sharded model;
  model.files.erase(file_name(2));
  model.write();
  const std::string message = test::message_of<IoError>([&] { Bert::check(model.folder / ""); });
  EXPECT_NE(message.find(file_name(2)), std::string::npos) << message;
}

TEST(FolderTensors, WithoutAnyWeightsTheOneFileIsNamed) {
  const test::TemporaryFolder folder;
  folder.put("config.json", test::slurp(kTiny + "/config.json"));
  const std::string message = test::message_of<IoError>([&] { Bert::check(folder / ""); });
  EXPECT_NE(message.find("model.safetensors: "), std::string::npos) << message;
}

}  // namespace
}  // namespace qkv
