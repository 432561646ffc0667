// Folders that appear whole or not at all, and that tell when they were damaged; the checksum that tells it.
#include "io/atomic_folder.h"

#include <gtest/gtest.h>

#include "io/crc32.h"
#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;
using test::message_of;

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

TEST(AtomicFolder, AppearsWhenCommitted) {
  const test::TemporaryFolder above;
  make(above / "x");
  EXPECT_EQ(above.names(), std::vector<std::string>{"x"});
  EXPECT_EQ(test::slurp(above / "x/a"), "first file");
  io::verify_folder(above / "x");
}

TEST(AtomicFolder, WithoutCommitNothingRemains) {
  const test::TemporaryFolder above;
  {
    io::AtomicFolder folder(above / "x");
    EXPECT_TRUE(io::AtomicFolder::is_unfinished(folder.unfinished()));
    write_file(folder.unfinished() + "/a", "bytes");
  }
  EXPECT_TRUE(above.names().empty());
  EXPECT_FALSE(io::AtomicFolder::is_unfinished(above / "x"));
}

TEST(AtomicFolder, WhatADeadProcessLeftIsReplaced) {
  const test::TemporaryFolder above;
  const std::string left = io::AtomicFolder(above / "x").unfinished();
  fs::create_directory(left);
  write_file(left + "/old", "bytes");
  make(above / "x");
  EXPECT_EQ(above.names(), std::vector<std::string>{"x"});
  EXPECT_FALSE(fs::exists(above / "x/old"));
}

TEST(AtomicFolder, EveryDamageIsFound) {
  const test::TemporaryFolder above;
  make(above / "x");
  for (const std::string name : {"a", "manifest.json"}) {
    const std::string whole = test::slurp(above / ("x/" + name));
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
  const test::TemporaryFolder above;
  make(above / "x");
  above.put("a", test::slurp(above / "x/a"));
  const std::string manifest = test::slurp(above / "x/manifest.json");
  for (const std::string name : {"../a", "/etc/hostname", "..", ".", "", "y/a"}) {
    std::string other = manifest;
    above.put("x/manifest.json", other.replace(other.find("\"a\""), 3, "\"" + name + "\""));
    EXPECT_EQ(message_of<FormatError>([&] { io::verify_folder(above / "x"); }),
              (above / "x/manifest.json") + ": \"" + name + "\" must be the name of a file beside it");
  }
}

TEST(AtomicFolder, FailingHalfWayLeavesNothing) {
  const test::TemporaryFolder above;
  const auto fail = [&] {
    io::AtomicFolder folder(above / "x");
    write_file(folder.unfinished() + "/a", "small");
    write_file(folder.unfinished() + "/b", std::string(2000, 'x'));
    folder.commit();
  };
  {
    const test::FileSizeLimit limit(1000);
    EXPECT_THROW(fail(), IoError);
  }
  EXPECT_TRUE(above.names().empty());
  EXPECT_THROW(io::AtomicFolder(above / "none/x"), IoError);
}

}  // namespace
}  // namespace qkv
