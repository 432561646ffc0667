// What the program says on standard error of what it wrote, and while it works.
#include "apps/attend.h"
#include "apps/running_program.h"

namespace qkv::test {
namespace {

struct Written {
  std::string line, path, how;
};

TEST(Notes, SayWhatWasWrittenUnlessToldNotTo) {
  const Folder folder;
  save_arrays(folder, worked_example());
  folder.put("texts.txt", "the cat\nthe dog\n");
  const std::string attend = "attend --query q.npy --key k.npy --value v.npy --out ";
  const Written all[] = {
      {attend + "o.npy", "o.npy", "; numpy.load() reads it"},
      {attend + "o.csv", "o.csv", "; numbers as text"},
      {attend + "o.safetensors", "o.safetensors", "; safetensors.numpy.load_file() reads it"},
      {"explain --html steps.html", "steps.html", "; open it in a browser"},
      {"explain --svg steps.svg", "steps.svg", "; open it in a browser"},
      {"explain --text hi --layer 0 --head 0 --attention encoder --svg head.svg", "head.svg", "; open it in a browser"},
      {"web --out page.html", "page.html", "; open it in a browser"},
      {"tokenizer train --input texts.txt --vocab 270 --out t.json", "t.json",
       "; qkv tokenizer encode --tokenizer reads it"},
      {"convert @tests/golden/gguf/llama.gguf llama", "llama", "; qkv generate --model opens it"},
      {"manual --out pages", "pages", "; man -l reads a page of it"}};
  for (const auto& [line, path, how] : all) {
    const Outcome outcome = folder.run(line);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const std::string begin = "wrote " + path + " (";
    ASSERT_TRUE(outcome.err.starts_with(begin) && outcome.err.ends_with(")" + how + "\n")) << line << outcome.err;
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    double bytes = 0;
    const std::filesystem::path written = folder / path;
    if (std::filesystem::is_directory(written)) {
      for (const auto& file : std::filesystem::directory_iterator(written)) bytes += double(file.file_size());
    } else {
      bytes = double(std::filesystem::file_size(written));
    }
    std::istringstream size(outcome.err.substr(begin.size()));
    double number = 0;
    std::string unit;
    size >> number >> unit;
    const double scale = unit.starts_with("bytes") ? 1 : unit.starts_with("kB") ? 1e3 : 1e6;
    EXPECT_NEAR(number * scale / bytes, 1, 0.06) << outcome.err << bytes;
    std::filesystem::remove_all(written);
    EXPECT_EQ(folder.run(line + " --quiet").err, "") << line;
  }
}

// On a terminal alone.
TEST(Notes, SayThatWorkGoesOn) {
  const std::string line = "bench attention --q-len 12288 --k-len 12288 --threads 1";  // 4 runs of 39 GFLOP at least
  expect_words(shown_on_terminal(line, {}, 80, &Surroundings::errors), "measuring, ... %, ... s");
  EXPECT_EQ(shown_on_terminal(line + " --quiet", {}, 80, &Surroundings::errors), "");
  EXPECT_EQ(run_program(line).err, "");
}

// Each of 250 words is hidden once: seconds.
TEST(Notes, SayHowMuchIsDoneWhereAllIsKnown) {
  std::string words = "You";
  for (int i = 1; i < 250; ++i) words += " are";
  const std::string line = "explain --model @models/en-es --threads 1 --text '" + words + "'";
  const std::string shown = shown_on_terminal(line, {}, 80, &Surroundings::errors);
  const auto percent = shown.find(" %, ");
  ASSERT_NE(percent, std::string::npos) << shown;
  EXPECT_NE(shown.rfind("explaining, ", percent), std::string::npos) << shown;
}

}  // namespace
}  // namespace qkv::test
