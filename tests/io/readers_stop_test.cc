// Reading and writing of every kind of file ends where it is asked to stop, and leaves the folder as it was.
#include "io/arrays/gguf.h"
#include "io/files/byte_source.h"
#include "io/gguf_for_test.h"
#include "io/json/json_document.h"
#include "io/pictures_for_test.h"
#include "qkv/pictures.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/train_tokenizer.h"
#include "stop_for_test.h"

namespace qkv::test {
namespace {

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(ReadersStop, WhileArraysAreWrittenAndRead) {
  const TemporaryFolder folder;
  const std::string npy = folder.put("a.npy", "before"), safetensors = folder / "a.safetensors";
  constexpr double kBytes = 40e6;
  expect_stops([&, array = Tensor::zeros({10'000'000})] { write_npy(npy, array); }, kBytes);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.npy"});  // nothing half written is left
  EXPECT_EQ(std::filesystem::file_size(npy), 40'000'128u);       // from before it was stopped
  expect_stops([&] { read_npy(npy); }, kBytes);
  expect_stops([&] { read_file(npy); }, kBytes);
  const std::string header = R"({"a":{"dtype":"F32","shape":[10000000],"data_offsets":[0,40000000]}})",
                    zeros(40'000'000, '\0');
  folder.put("a.safetensors", std::string{static_cast<char>(header.size())} + zeros.substr(0, 7) + header + zeros);
  expect_stops([&] { read_safetensors(safetensors); }, kBytes);
}

TEST(ReadersStop, WhileGgufFilesAreRead) {
  const TemporaryFolder folder;
  constexpr std::uint64_t kStrings = 1'000'000, kBlocks = 1'000'000;  // of 8 and of 34 bytes
  std::string bytes = "GGUF" + u32(3) + u64(1) + u64(1);
  bytes += key("strings", 9, u32(8) + u64(kStrings) + std::string(8 * kStrings, '\0'));
  bytes += text_of("t") + u32(1) + u64(32 * kBlocks) + u32(8) + u64(0);
  bytes.resize((bytes.size() + 31) / 32 * 32 + 34 * kBlocks);
  const std::string path = folder.put("a.gguf", bytes);
  expect_stops([&] { io::GgufFile file(path); }, 8 * kStrings);
  io::GgufFile file(path);
  expect_stops([&] { file.for_each_string("strings", [](std::size_t, std::string_view) {}); }, 8 * kStrings);
  expect_stops([&] { file.read(file.tensors()[0]); }, 34 * kBlocks);
}

TEST(ReadersStop, LittleIsReadBetweenTwoQuestions) {
  const std::string bytes(50'000'000, 'x');
  std::string read(bytes.size(), '-');
  const auto done = [&] {
    return std::partition_point(read.begin(), read.end(), [](char c) { return c == 'x'; }) - read.begin();
  };
  const TemporaryFolder folder;
  io::MemorySource memory(bytes);
  io::FileSource file(folder.put("bytes", bytes));
  for (io::ByteSource* source : std::initializer_list<io::ByteSource*>{&memory, &file}) {
    read.assign(bytes.size(), '-');
    EXPECT_LE(largest_gap([&] { source->read(read.data(), read.size()); }, done), kStopWork);
    EXPECT_TRUE(read == bytes);
  }
}

TEST(ReadersStop, WhileTextsAreRead) {
  const TemporaryFolder folder;
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
    expect_stops([&] { read_picture(golden_picture(name)); });
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
}  // namespace qkv::test
