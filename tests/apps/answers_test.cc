// The command lines of answers.txt.
#include <regex>

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

constexpr std::size_t kLines = 20;  // of a test at most: processes share a long list

struct Listed {
  std::vector<std::pair<std::string, std::string>> files{};
  std::vector<OfACommand> commands{};
};

Listed read_list() {
  Listed all;
  for (const std::string& row : lines_of(slurp(QKV_TEST_DATA "/apps/answers.txt"))) {
    if (row.empty() || row.starts_with('#')) continue;
    if (row.starts_with('[')) {
      const std::size_t end = row.find(']');
      all.commands.push_back({.name = row.substr(1, end - 1), .before = row.substr(end + 1) + " "});
      continue;
    }
    if (all.commands.empty()) {
      const std::size_t colon = row.find(": ");
      all.files.emplace_back(row.substr(0, colon),
                             std::regex_replace(row.substr(colon + 2), std::regex(R"(\\n)"), "\n"));
      continue;
    }
    const std::size_t arrow = row.find("=> "), open = row.find('(');
    const Answer answer{row.substr(0, std::min(arrow, open)), row.at(arrow + 3) - '0',
                        row.substr(std::min(arrow + 5, row.size()))};
    const std::string endings = open < arrow ? row.substr(open + 1, row.rfind(')', arrow) - open - 1) : " ";
    std::istringstream rest(endings);
    for (std::string ending; std::getline(rest, ending, '|');) {
      const OfACommand& last = all.commands.back();
      if (last.answers.size() == kLines) all.commands.push_back({.name = last.name + "_", .before = last.before});
      all.commands.back().answers.push_back({answer.line + ending, answer.code, answer.words});
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
    save_arrays(*folder_, worked_example());
    for (const char* name : {"bad", "folder.npy", "folder.html"}) std::filesystem::create_directory(*folder_ / name);
    for (const char* name : {"loop", "loop.npy"}) std::filesystem::create_symlink(name, *folder_ / name);
    const std::string whole = slurp(*folder_ / "q.npy");
    folder_->put("bad/empty.npy", "");
    folder_->put("bad/head.npy", whole.substr(0, 60));
    folder_->put("bad/short.npy", whole.substr(0, whole.size() - 1));
    folder_->put("bad/long.npy", whole + "x");
    const Listed all = read_list();
    for (const auto& [name, content] : all.files) {
      name == "arrays" ? save_arrays(*folder_, content) : void(folder_->put(name, content));
    }
    for (const OfACommand& command : all.commands) {
      for (const Answer& answer : command.answers) put_zeros(words_of(command.before + answer.line));
    }
  }
  static void TearDownTestSuite() { folder_.reset(); }

  // Arrays of zeros that are named by type and shape: f32_3_4.npy.
  static void put_zeros(const Words& words) {
    for (const std::string& word : words) {
      for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::u8, Dtype::i32, Dtype::i64}) {
        const std::string type(name_of(dtype)), name = word.substr(0, word.rfind(".npy"));
        if (name == word || !name.starts_with(type)) continue;
        std::string sizes = name.substr(type.size());
        std::ranges::replace(sizes, '_', ',');
        save_arrays(*folder_, name + ":" + type + " 0{" + sizes + "}");
      }
    }
  }

  static std::unique_ptr<Folder> folder_;
};
std::unique_ptr<Folder> ProgramAnswers::folder_;

TEST_P(ProgramAnswers, AreAsListed) { expect_answers(*folder_, GetParam().before, GetParam().answers); }

INSTANTIATE_TEST_SUITE_P(, ProgramAnswers, testing::ValuesIn(read_list().commands),
                         [](const auto& command) { return command.param.name; });

}  // namespace
}  // namespace qkv::test
