// An IoError carries the errno of what the system refused.
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>

#include "files_for_test.h"
#include "qkv/files.h"
#include "qkv/models/find_model.h"

namespace qkv {
namespace {

int error_number_of(const std::function<void()>& refused) {
  try {
    refused();
  } catch (const IoError& error) {
    return error.error_number;
  }
  return 0;
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

TEST(IoError, OfReading) {
  const test::TemporaryFolder folder;
  const std::string file = folder.put("file", "bytes"), pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error_number_of([&] { read_file(folder / "missing"); }), ENOENT);
  EXPECT_EQ(error_number_of([&] { read_npy(folder / "missing.npy"); }), ENOENT);
  EXPECT_EQ(error_number_of([&] { read_file(file + "/below"); }), ENOTDIR);
  EXPECT_EQ(error_number_of([&] { read_file(folder / ""); }), EISDIR);
  EXPECT_EQ(error_number_of([&] { read_file(pipe); }), EINVAL);
  EXPECT_EQ(error_number_of([&] { find_model("no-such-organization/no-such-model"); }), ENOENT);
}

TEST(IoError, OfWriting) {
  const test::TemporaryFolder folder;
  const std::string file = folder.put("file", "bytes");
  EXPECT_EQ(error_number_of([&] { write_file(folder / "missing/file", "x"); }), ENOENT);
  EXPECT_EQ(error_number_of([&] { write_file(file + "/below", "x"); }), ENOTDIR);
  EXPECT_EQ(error_number_of([&] { write_file(folder / "", "x"); }), EISDIR);
  EXPECT_EQ(error_number_of([&] { write_file("/dev/full", "x"); }), EINVAL);
  const test::FileSizeLimit limit(1000);
  EXPECT_EQ(error_number_of([&] { write_file(file, std::string(2000, 'x')); }), EFBIG);
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
  EXPECT_EQ(error_number_of([&] { write_file(disk + "/file", std::string(100'000, 'x')); }), ENOSPC);
  EXPECT_TRUE(std::filesystem::is_empty(disk));
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

}  // namespace
}  // namespace qkv
