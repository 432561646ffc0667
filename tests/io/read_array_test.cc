// Arrays by the ending of their path.
#include <gtest/gtest.h>

#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv {
namespace {

using test::message_of;

TEST(ReadArray, TellsTheFormatByTheEnding) {
  const test::TemporaryFolder folder;
  const Tensor matrix = Tensor::of<double>({2, 2}, {1, 2, 3, 4});
  write_npy(folder / "a.npy", matrix);
  test::expect_equal(read_array(folder / "a.npy"), matrix);
  test::expect_equal(read_array(folder.put("a.csv", "1,2\n3,4\n")), matrix);
  test::expect_equal(read_array(folder.put("a.json", "[[1,2],[3,4]]")), matrix);
  write_safetensors(folder / "a.safetensors",
                    {.tensors = {{"x", matrix}, {"y:z", Tensor::zeros({1})}}, .metadata = {}});
  test::expect_equal(read_array(folder / "a.safetensors:x"), matrix);
  test::expect_equal(read_array(folder / "a.safetensors:y:z"), Tensor::zeros({1}));
}

TEST(ReadArray, TensorsMayBeNamedAsFilesAre) {
  const test::TemporaryFolder folder;
  const Tensor matrix = Tensor::of<double>({2, 1}, {1, 2});
  const std::vector<std::string> names = {"a.npy", "b.csv", "c.json", "d.safetensors:e"};
  SafeTensors content;
  for (const std::string& name : names) content.tensors.emplace(name, matrix);
  write_safetensors(folder / "a.safetensors", content);
  for (const std::string& name : names) test::expect_equal(read_array((folder / "a.safetensors:") + name), matrix);
}

TEST(ReadArray, EndingsInCapitals) {
  const test::TemporaryFolder folder;
  const Tensor matrix = Tensor::of<double>({2, 2}, {1, 2, 3, 4});
  write_npy(folder / "a.NPY", matrix);
  test::expect_equal(read_array(folder / "a.NPY"), matrix);
  test::expect_equal(read_array(folder.put("A.CSV", "1,2\n3,4\n")), matrix);
  test::expect_equal(read_array(folder.put("a.Json", "[[1,2],[3,4]]")), matrix);
  write_safetensors(folder / "a.SafeTensors", {.tensors = {{"X", matrix}}, .metadata = {}});
  test::expect_equal(read_array(folder / "a.SafeTensors:X"), matrix);
}

TEST(ReadArray, SaysWhatIsMissing) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  write_safetensors(path, {.tensors = {{"x", Tensor::zeros({1})}, {"y", Tensor::zeros({1})}}, .metadata = {}});
  EXPECT_EQ(message_of<FormatError>([&] { read_array(path + ":z"); }), path + ": no tensor \"z\"; it has \"x\", \"y\"");
  for (const std::string& bad : {path, folder / "a.txt", std::string("npy"), std::string()}) {
    EXPECT_EQ(message_of<FormatError>([&] { read_array(bad); }),
              bad + ": unknown ending; arrays are read from .npy, .csv, .json and FILE.safetensors:TENSOR");
  }
  EXPECT_THROW(read_array(folder / "none.npy"), IoError);
}

}  // namespace
}  // namespace qkv
