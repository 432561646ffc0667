// Reading and writing whole files: what is refused, and that a failed write changes nothing.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv {
namespace {

using test::message_of;

TEST(ReadFile, ReturnsTheBytes) {
  const test::TemporaryFolder folder;
  const std::string bytes("a\0b\r\n", 5);
  EXPECT_EQ(read_file(folder.put("a", bytes)), bytes);
  EXPECT_EQ(read_file(folder.put("empty", "")), "");
}

TEST(ReadFile, RefusesWhatIsNoRegularFile) {
  const test::TemporaryFolder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(message_of<IoError>([&] { read_file(fifo); }), fifo + ": cannot read: not a regular file");
  EXPECT_EQ(message_of<IoError>([&] { read_file(folder / ""); }), folder / "" + ": cannot read: not a regular file");
  EXPECT_EQ(message_of<IoError>([&] { read_file(folder / "none"); }),
            folder / "none" + ": cannot read: No such file or directory");
  EXPECT_THROW(read_npy(fifo), IoError);
  EXPECT_THROW(read_safetensors(folder / "none"), IoError);
  EXPECT_THROW(read_csv(folder / ""), IoError);
  EXPECT_THROW(read_json_matrix("/dev/zero"), IoError);
}

TEST(ReadFile, KeepsToTheLimit) {
  const test::TemporaryFolder folder;
  const std::string path = folder.put("a", "12345");
  EXPECT_EQ(read_file(path, 5), "12345");
  EXPECT_EQ(message_of<FormatError>([&] { read_file(path, 4); }), path + ": 5 bytes exceed the limit of 4");
}

TEST(WriteFile, CreatesAndReplaces) {
  const test::TemporaryFolder folder;
  write_file(folder / "a", "first");
  EXPECT_EQ(test::slurp(folder / "a"), "first");
  write_file(folder / "a", "");
  EXPECT_EQ(test::slurp(folder / "a"), "");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

TEST(WriteFile, KeepsPermissionsAndFollowsLinks) {
  const test::TemporaryFolder folder;
  const std::string path = folder.put("a", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  std::filesystem::create_symlink("a", folder / "link");
  write_file(folder / "link", "new");
  EXPECT_EQ(test::slurp(path), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  struct stat status;
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(WriteFile, TakesALongName) {
  const test::TemporaryFolder folder;
  const std::string name(255, 'n');
  write_file(folder / name, "x");
  EXPECT_EQ(folder.names(), std::vector<std::string>{name});
}

TEST(WriteFile, RefusesPathsThatCannotBeWritten) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(message_of<IoError>([&] { write_file(folder / "none/a", "x"); }),
            folder / "none/a" + ": cannot write: No such file or directory");
  std::filesystem::create_directory(folder / "sub");
  EXPECT_EQ(message_of<IoError>([&] { write_file(folder / "sub", "x"); }),
            folder / "sub" + ": cannot write: not a regular file");
  EXPECT_THROW(write_file(folder / "new/", "x"), IoError);
  EXPECT_THROW(write_file("", "x"), IoError);
  EXPECT_THROW(write_file("/dev/null", "x"), IoError);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"sub"});
}

TEST(WriteFile, FailingHalfWayLeavesTheOldFile) {
  const test::TemporaryFolder folder;
  const std::string old_path = folder.put("old", "old bytes");
  const SafeTensors content{.tensors = {{"a", Tensor::zeros({10000})}}, .metadata = {}};
  {
    const test::FileSizeLimit limit(1000);
    EXPECT_EQ(message_of<IoError>([&] { write_file(old_path, std::string(2000, 'x')); }),
              old_path + ": cannot write: File too large");
    EXPECT_THROW(write_file(folder / "new", std::string(2000, 'x')), IoError);
    EXPECT_THROW(write_npy(old_path, Tensor::zeros({10000})), IoError);
    EXPECT_THROW(write_safetensors(old_path, content), IoError);
  }
  EXPECT_EQ(test::slurp(old_path), "old bytes");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"old"});
}

}  // namespace
}  // namespace qkv
