// Reading and writing of every kind of file ends where it is asked to stop, and leaves the folder as it was.
#include <algorithm>
#include <string>

#include "io/byte_source.h"
#include "io/files_for_test.h"
#include "io/json_document.h"
#include "io/pictures_for_test.h"
#include "qkv/files.h"
#include "qkv/pictures.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/train_tokenizer.h"
#include "stop_for_test.h"

namespace qkv {
namespace {

using test::expect_stops;

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(ReadersStop, WhileArraysAreWrittenAndRead) {
  const test::TemporaryFolder folder;
  const std::string npy = folder.put("a.npy", "before"), safetensors = folder / "a.safetensors";
  constexpr double kBytes = 40e6;
  const Tensor array = Tensor::zeros({40'000'000 / 4});
  expect_stops([&] { write_npy(npy, array); }, kBytes);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.npy"});  // nothing half written is left
  EXPECT_EQ(std::filesystem::file_size(npy), 40'000'128u);       // from before it was stopped
  expect_stops([&] { read_npy(npy); }, kBytes);
  expect_stops([&] { read_file(npy); }, kBytes);
  write_safetensors(safetensors, {.tensors = {{"a", array}}, .metadata = {}});
  expect_stops([&] { read_safetensors(safetensors); }, kBytes);
}

TEST(ReadersStop, LittleIsReadBetweenTwoQuestions) {
  const std::string bytes(50'000'000, 'x');
  std::string read(bytes.size(), '-');
  const auto done = [&] {
    return std::partition_point(read.begin(), read.end(), [](char c) { return c == 'x'; }) - read.begin();
  };
  io::MemorySource memory(bytes);
  EXPECT_LE(test::largest_gap([&] { memory.read(read.data(), read.size()); }, done), kStopWork);
  EXPECT_TRUE(read == bytes);
  read.assign(bytes.size(), '-');
  const test::TemporaryFolder folder;
  io::FileSource file(folder.put("bytes", bytes));
  EXPECT_LE(test::largest_gap([&] { file.read(read.data(), read.size()); }, done), kStopWork);
  EXPECT_TRUE(read == bytes);
}

TEST(ReadersStop, WhileTextsAreRead) {
  const test::TemporaryFolder folder;
  // A number, a line and a byte of JSON are some hundred operations.
  expect_stops([path = folder.put("a.csv", repeated("1,2.5,-3e7\n", 20'000))] { read_csv(path); }, 60'000 * 100.0);
  expect_stops([path = folder.put("one.csv", repeated("1,", 300'000) + "1\n")] { read_csv(path); }, 300'000 * 100.0);
  expect_stops([path = folder.put("a.tsv", repeated("one\ttwo\n", 20'000))] { read_pairs(path); }, 20'000 * 100.0);
  const std::string json = "[" + repeated("[1, 2, 3], ", 90'000) + "[1, 2, 3]]";
  expect_stops([path = folder.put("a.json", json)] { read_json_matrix(path); }, 1'000'000 * 100.0);
}

TEST(ReadersStop, WhilePicturesAreRead) {
  for (const char* name :
       {"gray8.png", "gray8_interlaced.png", "palette2.png", "orientation_6.jpg", "gray_progressive.jpg", "cmyk.jpg"}) {
    expect_stops([&] { read_picture(test::golden_picture(name)); });
  }
}

// One text without a space, and many words: each stage asks, whatever it makes of them.
TEST(ReadersStop, WhileTextIsTokenized) {
  TokenizerTrainer trainer;
  const std::string words = repeated("the cat sat on the mat. ", 4000), run(100'000, 'x');
  constexpr double kOperations = 1000;  // of a character
  expect_stops([&] { trainer.add(words); }, static_cast<double>(words.size()) * kOperations);
  std::string json;
  expect_stops([&] { json = trainer.train(300); });
  json = trainer.train(300);
  const Tokenizer tokenizer = Tokenizer::parse(json, "tokenizer.json");
  expect_stops([&] { tokenizer.encode(words); }, static_cast<double>(words.size()) * kOperations);
  expect_stops([&] { tokenizer.encode(run); }, static_cast<double>(run.size()) * kOperations);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("the cat").ids), "the cat");
}

}  // namespace
}  // namespace qkv
