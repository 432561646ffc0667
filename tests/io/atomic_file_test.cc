// Reading and writing whole files: what the system refuses, with its error number, and that a failed write changes
// nothing.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/models/find_model.h"

namespace qkv {
namespace {

using test::message_of;

struct SystemRefusal {
  std::string message;
  int error_number;
  std::function<void()> call;
};

int error_number_of(const std::function<void()>& refused) {
  try {
    refused();
  } catch (const IoError& error) {
    return error.error_number;
  }
  return 0;
}

void expect_io_errors(const std::vector<SystemRefusal>& refusals) {
  for (const SystemRefusal& refusal : refusals) {
    EXPECT_EQ(message_of<IoError>(refusal.call), refusal.message);
    EXPECT_EQ(error_number_of(refusal.call), refusal.error_number) << refusal.message;
  }
}

TEST(ReadFile, ReturnsTheBytesUpToTheLimit) {
  const test::TemporaryFolder folder;
  const std::string bytes("a\0b\r\n", 5), path = folder.put("a", bytes);
  EXPECT_EQ(read_file(path), bytes);
  EXPECT_EQ(read_file(path, 5), bytes);
  EXPECT_EQ(message_of<FormatError>([&] { read_file(path, 4); }), path + ": 5 bytes exceed the limit of 4");
  EXPECT_EQ(read_file(folder.put("empty", "")), "");
}

TEST(ReadFile, RefusesWhatIsNoRegularFile) {
  const test::TemporaryFolder folder;
  const std::string fifo = folder / "fifo", file = folder.put("file", "bytes"), none = folder / "none";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string irregular = ": cannot read: not a regular file",
                    missing = ": cannot read: No such file or directory";
  expect_io_errors({{fifo + irregular, EINVAL, [&] { read_file(fifo); }},
                    {fifo + irregular, EINVAL, [&] { read_npy(fifo); }},
                    {folder / "" + irregular, EISDIR, [&] { read_file(folder / ""); }},
                    {folder / "" + irregular, EISDIR, [&] { read_csv(folder / ""); }},
                    {"/dev/zero" + irregular, EINVAL, [&] { read_json_matrix("/dev/zero"); }},
                    {none + missing, ENOENT, [&] { read_file(none); }},
                    {none + missing, ENOENT, [&] { read_npy(none); }},
                    {none + missing, ENOENT, [&] { read_safetensors(none); }},
                    {file + "/below: cannot read: Not a directory", ENOTDIR, [&] { read_file(file + "/below"); }}});
  EXPECT_EQ(error_number_of([] { find_model("no-such-organization/no-such-model"); }), ENOENT);
}

TEST(WriteFile, CreatesAndReplaces) {
  const test::TemporaryFolder folder;
  const std::string name(255, 'n');  // the longest
  for (const char* bytes : {"first", ""}) {
    write_file(folder / name, bytes);
    EXPECT_EQ(test::slurp(folder / name), bytes);
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{name});
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

TEST(WriteFile, RefusesPathsThatCannotBeWritten) {
  const test::TemporaryFolder folder;
  const std::string file = folder.put("file", "bytes"), sub = folder / "sub";
  std::filesystem::create_directory(sub);
  const std::tuple<std::string, std::string, int> paths[] = {{folder / "none/a", "No such file or directory", ENOENT},
                                                             {folder / "new/", "No such file or directory", ENOENT},
                                                             {"", "No such file or directory", ENOENT},
                                                             {file + "/below", "Not a directory", ENOTDIR},
                                                             {sub, "not a regular file", EISDIR},
                                                             {"/dev/null", "not a regular file", EINVAL},
                                                             {"/dev/full", "not a regular file", EINVAL}};
  for (const auto& [path, why, number] : paths) {
    expect_io_errors({{path + ": cannot write: " + why, number, [path = path] { write_file(path, "x"); }}});
  }
  EXPECT_EQ(folder.names().size(), 2u);
}

TEST(WriteFile, FailingHalfWayLeavesTheOldFile) {
  const test::TemporaryFolder folder;
  const std::string old_path = folder.put("old", "old bytes"), too_large = ": cannot write: File too large";
  const Tensor array = Tensor::zeros({10000});
  const SafeTensors content{.tensors = {{"a", array}}, .metadata = {}};
  {
    const test::FileSizeLimit limit(1000);
    expect_io_errors({{old_path + too_large, EFBIG, [&] { write_file(old_path, std::string(2000, 'x')); }},
                      {folder / "new" + too_large, EFBIG, [&] { write_file(folder / "new", std::string(2000, 'x')); }},
                      {old_path + too_large, EFBIG, [&] { write_npy(old_path, array); }},
                      {old_path + too_large, EFBIG, [&] { write_safetensors(old_path, content); }}});
  }
  EXPECT_EQ(test::slurp(old_path), "old bytes");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"old"});
}

// In a process without the rights of root.
int error_number_of_nobody(const std::function<void()>& refused) {
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(0);
    ::_exit(error_number_of(refused));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(IoError, WithoutPermission) {
  const test::TemporaryFolder folder;
  const std::string file = folder.put("file", "bytes");
  ASSERT_EQ(::chmod(file.c_str(), 0), 0);
  EXPECT_EQ(error_number_of_nobody([&] { read_file(file); }), EACCES);
  ASSERT_EQ(::chmod((folder / "").c_str(), 0500), 0);
  EXPECT_EQ(error_number_of_nobody([&] { write_file(folder / "new", "x"); }), EACCES);
}

TEST(IoError, OfAFullDisk) {
  const test::TemporaryFolder folder;
  const std::string disk = folder / "disk";
  std::filesystem::create_directory(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "no right to mount";
  expect_io_errors({{disk + "/file: cannot write: No space left on device", ENOSPC,
                     [&] { write_file(disk + "/file", std::string(100'000, 'x')); }}});
  EXPECT_TRUE(std::filesystem::is_empty(disk));
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

}  // namespace
}  // namespace qkv
