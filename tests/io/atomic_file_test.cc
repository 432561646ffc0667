// Reading and writing whole files and folders: what the system refuses, with its error number; a write that fails
// changes nothing, a folder appears whole or not at all, and tells when it was damaged.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "io/atomic_folder.h"
#include "io/files/byte_source.h"
#include "io/files_for_test.h"
#include "qkv/models/find_model.h"

namespace qkv::test {
namespace {

namespace fs = std::filesystem;

int error_number_of(const std::function<void()>& refused) {
  try {
    refused();
  } catch (const IoError& error) {
    return error.error_number;
  }
  return 0;
}

void expect_io_error(const std::string& message, int number, const std::function<void()>& refused) {
  EXPECT_EQ(message_of<IoError>(refused), message);
  EXPECT_EQ(error_number_of(refused), number) << message;
}

TEST(ReadFile, ReturnsTheBytesUpToTheLimit) {
  const TemporaryFolder folder;
  const std::string bytes("a\0b\r\n", 5), path = folder.put("a", bytes);
  EXPECT_EQ(read_file(path), bytes);
  EXPECT_EQ(read_file(path, 5), bytes);
  EXPECT_EQ(message_of<FormatError>([&] { read_file(path, 4); }), path + ": 5 bytes exceed the limit of 4");
  EXPECT_EQ(read_file(folder.put("empty", "")), "");
  EXPECT_EQ(error_number_of([] { find_model("no-such-organization/no-such-model"); }), ENOENT);
}

TEST(ReadFile, AndWriteFileRefuseWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  const std::string fifo = folder / "fifo", file = folder.put("file", "bytes");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::tuple<std::string, std::string, int> paths[] = {{fifo, "not a regular file", EINVAL},
                                                             {"/dev/zero", "not a regular file", EINVAL},
                                                             {"/dev/full", "not a regular file", EINVAL},
                                                             {folder / "", "not a regular file", EISDIR},
                                                             {folder / "none/a", "No such file or directory", ENOENT},
                                                             {folder / "new/", "No such file or directory", ENOENT},
                                                             {"", "No such file or directory", ENOENT},
                                                             {file + "/below", "Not a directory", ENOTDIR}};
  for (const auto& [path, why, number] : paths) {
    const std::string reading = path + ": cannot read: " + why, writing = path + ": cannot write: " + why, &bad = path;
    expect_io_error(reading, number, [&] { read_file(bad); });
    expect_io_error(reading, number, [&] { read_npy(bad); });
    expect_io_error(reading, number, [&] { read_safetensors(bad); });
    expect_io_error(reading, number, [&] { read_csv(bad); });
    expect_io_error(reading, number, [&] { read_json_matrix(bad); });
    expect_io_error(writing, number, [&] { write_file(bad, "x"); });
  }
  EXPECT_EQ(folder.names().size(), 2u);
}

TEST(WriteFile, CreatesAndReplacesKeepsPermissionsAndFollowsLinks) {
  const TemporaryFolder folder;
  const std::string name(255, 'n'), path = folder / name;  // the longest
  for (const char* bytes : {"first", ""}) {
    write_file(path, bytes);
    EXPECT_EQ(slurp(path), bytes);
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{name});
  fs::permissions(path, fs::perms{0640});
  fs::create_symlink(name, folder / "link");
  write_file(folder / "link", "new");
  EXPECT_EQ(slurp(path), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms{0640});
}

TEST(WriteFile, FailingHalfWayLeavesTheOldFile) {
  const TemporaryFolder folder;
  const std::string old_path = folder.put("old", "old bytes"), new_path = folder / "new";
  const Tensor array = Tensor::zeros({10000});
  {
    const FileSizeLimit limit(1000);
    for (const std::string& path : {old_path, new_path}) {
      const std::string message = path + ": cannot write: File too large";
      expect_io_error(message, EFBIG, [&] { write_file(path, std::string(2000, 'x')); });
      expect_io_error(message, EFBIG, [&] { write_npy(path, array); });
      expect_io_error(message, EFBIG, [&] { write_safetensors(path, {.tensors = {{"a", array}}, .metadata = {}}); });
    }
  }
  EXPECT_EQ(slurp(old_path), "old bytes");
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
  const TemporaryFolder folder;
  const std::string file = folder.put("file", "bytes");
  fs::permissions(file, fs::perms::none);
  EXPECT_EQ(error_number_of_nobody([&] { read_file(file); }), EACCES);
  fs::permissions(folder / "", fs::perms{0500});
  EXPECT_EQ(error_number_of_nobody([&] { write_file(folder / "new", "x"); }), EACCES);
}

// The check value of the catalogue of CRC algorithms (CRC-32/ISO-HDLC), and what Python's zlib.crc32 gives.
TEST(Crc32, GivesTheKnownAnswers) {
  EXPECT_EQ(io::crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(io::crc32(""), 0u);
  EXPECT_EQ(io::crc32(std::string(1000, '\xff')), 0xE0533230u);
  const std::string text = "The quick brown fox jumps over the lazy dog";
  for (std::size_t i = 0; i <= text.size(); ++i) {  // goes on where it stopped
    EXPECT_EQ(io::crc32(text.substr(i), io::crc32(text.substr(0, i))), 0x414FA339u) << i;
  }
}

void make(const std::string& path) {
  io::AtomicFolder folder(path);
  write_file(folder.unfinished() + "/a", "first file");
  write_file(folder.unfinished() + "/b", "");
  folder.commit();
}

TEST(AtomicFolder, AppearsWhenCommittedAlone) {
  const TemporaryFolder above;
  std::string left;
  {
    io::AtomicFolder folder(above / "x");
    left = folder.unfinished();
    EXPECT_TRUE(io::AtomicFolder::is_unfinished(left));
    write_file(left + "/a", "bytes");
  }
  EXPECT_TRUE(above.names().empty());
  EXPECT_FALSE(io::AtomicFolder::is_unfinished(above / "x"));
  fs::create_directory(left);  // as a dead process leaves it
  write_file(left + "/old", "bytes");
  make(above / "x");
  EXPECT_EQ(above.names(), std::vector<std::string>{"x"});
  EXPECT_FALSE(fs::exists(above / "x/old"));
  EXPECT_EQ(slurp(above / "x/a"), "first file");
  io::verify_folder(above / "x");
}

TEST(AtomicFolder, EveryDamageIsFound) {
  const TemporaryFolder above;
  make(above / "x");
  for (const std::string name : {"a", "manifest.json"}) {
    const std::string whole = slurp(above / ("x/" + name));
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ 4);
      above.put("x/" + name, damaged);
      EXPECT_THROW(io::verify_folder(above / "x"), std::runtime_error) << name << " " << i;
      if (name != "a" && i + 1 == whole.size()) continue;  // the last byte of the manifest is a line end
      above.put("x/" + name, whole.substr(0, i));
      EXPECT_THROW(io::verify_folder(above / "x"), std::runtime_error) << name << " " << i;
    }
    above.put("x/" + name, whole);
  }
  above.put("x/b", "more");
  EXPECT_EQ(message_of<FormatError>([&] { io::verify_folder(above / "x"); }),
            (above / "x/b") + ": 4 bytes; the manifest says 0");
  for (const char* missing : {"x/b", "x/manifest.json"}) {
    fs::remove(above / missing);
    EXPECT_THROW(io::verify_folder(above / "x"), IoError);
  }
}

// A manifest answers for its own folder alone, whatever is said of other files.
TEST(AtomicFolder, NamesOutsideItAreRefused) {
  const TemporaryFolder above;
  make(above / "x");
  above.put("a", slurp(above / "x/a"));
  const std::string manifest = slurp(above / "x/manifest.json");
  for (const std::string name : {"../a", "/etc/hostname", "..", ".", "", "y/a"}) {
    std::string other = manifest;
    above.put("x/manifest.json", other.replace(other.find("\"a\""), 3, "\"" + name + "\""));
    EXPECT_EQ(message_of<FormatError>([&] { io::verify_folder(above / "x"); }),
              (above / "x/manifest.json") + ": \"" + name + "\" must be the name of a file in its folder");
  }
}

TEST(AtomicFolder, FailingHalfWayLeavesNothing) {
  const TemporaryFolder above;
  {
    const FileSizeLimit limit(1000);
    io::AtomicFolder folder(above / "x");
    write_file(folder.unfinished() + "/a", "small");
    EXPECT_THROW(write_file(folder.unfinished() + "/b", std::string(2000, 'x')), IoError);
  }
  EXPECT_TRUE(above.names().empty());
  EXPECT_THROW(io::AtomicFolder(above / "none/x"), IoError);
}

}  // namespace
}  // namespace qkv::test
