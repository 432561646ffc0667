// The command lines of answers.txt.
#include "apps/attend.h"
#include "apps/tiny_bert.h"
#include "train/translator_files.h"

namespace qkv::test {
namespace {

struct OfACommand {
  std::string name;    // of the test
  std::string before;  // the beginning of the lines
  std::vector<Answer> answers{};
};

std::vector<OfACommand> listed_answers() {
  std::vector<OfACommand> all;
  for (const std::string& row : lines_of(slurp(QKV_TEST_DATA "/apps/answers.txt"))) {
    if (row.empty() || row.starts_with('#')) continue;
    if (row.starts_with('[')) {
      const std::size_t end = row.find(']');
      all.push_back({.name = row.substr(1, end - 1), .before = row.substr(end + 1) + " "});
      continue;
    }
    const std::size_t arrow = row.find("=> "), open = row.find('(');
    const Answer answer{row.substr(0, std::min(arrow, open)), row.at(arrow + 3) - '0',
                        row.substr(std::min(arrow + 5, row.size()))};
    if (open > arrow) {
      all.back().answers.push_back(answer);
      continue;
    }
    std::istringstream endings(row.substr(open + 1, row.rfind(')', arrow) - open - 1));
    for (std::string ending; std::getline(endings, ending, '|');) {
      all.back().answers.push_back({answer.line + ending, answer.code, answer.words});
    }
  }
  return all;
}

class ProgramAnswers : public testing::TestWithParam<OfACommand> {
 protected:
  // The worked example and what else the lines name.
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TinyBert>();
    tiny_training(*folder_);
    std::filesystem::copy(TinyBert("encoders/distilbert") / "model", *folder_ / "distilbert");
    save_arrays(*folder_, worked_example() + "four:i32 [4] minus:i32 [-1] row3:i64 [[0,0,3]] starts:i32 [0,1,3] " +
                              "far:i32 [0,3,1000000000] x:i32 [[1,0,1,0],[0,2,0,2],[1,1,1,1]]");
    for (const std::int64_t size : {96, 128}) {
      std::vector<std::int32_t> turns;
      for (std::int32_t i = 0; i < size; ++i) turns.push_back(i % 2);
      write_npy(*folder_ / ("turns_" + std::to_string(size) + ".npy"), Tensor::of({1, size}, turns));
    }
    for (const char* name : {"bad", "folder.npy"}) std::filesystem::create_directory(*folder_ / name);
    for (const char* name : {"loop", "loop.npy"}) std::filesystem::create_symlink(name, *folder_ / name);
    const std::string whole = slurp(*folder_ / "q.npy");
    const std::pair<const char*, std::string> files[] = {
        {"bad/empty.npy", ""},
        {"bad/text.npy", "hello"},
        {"bad/head.npy", whole.substr(0, 60)},
        {"bad/short.npy", whole.substr(0, whole.size() - 1)},
        {"bad/long.npy", whole + "x"},
        {"input.csv", "1,2\n3,4\n"},
        {"q.json", "[[1,0,1],[1,0,0],[0,0,1],[0,1,1]]"},
        {"k.csv", "0,0,1\n1,1,0\n0,1,0\n1,1,0\n"},
        {"steps.json", R"({"schema": "qkv/explain/1", "kind": "steps"})"},
        {"newer.json", R"({"schema": "qkv/explain/2", "kind": "steps"})"},
        {"notes.json", "no JSON"},
        {"empty.json", R"({"model": {}})"}};
    for (const auto& [name, bytes] : files) folder_->put(name, bytes);
    for (const OfACommand& command : listed_answers()) {
      for (const Answer& answer : command.answers) put_zeros(words_of(command.before + answer.line));
    }
  }
  static void TearDownTestSuite() { folder_.reset(); }

  // Arrays of zeros that are named by type and shape: f32_3_4.npy.
  static void put_zeros(const Words& words) {
    for (const std::string& word : words) {
      for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::u8, Dtype::i32, Dtype::i64}) {
        if (!word.starts_with(name_of(dtype)) || !word.ends_with(".npy")) continue;
        Dims shape;
        std::istringstream sizes(word.substr(name_of(dtype).size()));
        char before = 0;
        for (std::int64_t size = 0; sizes >> before >> size;) shape.push_back(size);
        write_npy(*folder_ / word, Tensor::zeros(shape, dtype));
      }
    }
  }

  static std::unique_ptr<Folder> folder_;
};
std::unique_ptr<Folder> ProgramAnswers::folder_;

TEST_P(ProgramAnswers, AreAsListed) { expect_answers(*folder_, GetParam().before, GetParam().answers); }

INSTANTIATE_TEST_SUITE_P(, ProgramAnswers, testing::ValuesIn(listed_answers()),
                         [](const auto& command) { return command.param.name; });

}  // namespace
}  // namespace qkv::test
