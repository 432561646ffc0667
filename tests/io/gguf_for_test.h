// GGUF files put together, and edited.
#pragma once

#include "io/files_for_test.h"

namespace qkv::test {

inline std::string gguf_golden(const std::string& name) { return QKV_TEST_DATA "/golden/gguf/" + name; }

// Numbers, texts and keys as files have them.
inline std::string u32(std::uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), 4); }
inline std::string u64(std::uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), 8); }
inline std::string text_of(const std::string& text) { return u64(text.size()) + text; }
inline std::string key(const std::string& name, std::uint32_t type, const std::string& value) {
  return text_of(name) + u32(type) + value;
}

// The bytes of a file with one more key in front of the others; a second one fills up so that tensors stay aligned.
inline std::string with_key(std::string file, const std::string& more) {
  const std::size_t filled = (more.size() + text_of("filler").size() + 16 + 31) / 32 * 32;
  const std::size_t left = filled - more.size() - text_of("filler").size() - 16;
  const std::string filler = key("filler", 9, u32(0) + u64(left) + std::string(left, '\0'));
  std::uint64_t count = 0;
  std::memcpy(&count, file.data() + 16, sizeof count);
  return file.replace(16, 8, u64(count + 2) + more + filler);
}

// Each must be refused with its message, which begins with the file's name: the golden file `name` with `from`, which
// is there, replaced by as many bytes.
struct GgufEdit {
  std::string from, to, message;
};

template <class Read>
void expect_edits_refused(const std::string& name, const std::vector<GgufEdit>& edits, Read read) {
  const std::string good = slurp(gguf_golden(name));
  std::vector<Malformed> files;
  for (const auto& [from, to, message] : edits) {
    const std::size_t at = good.find(from);
    ASSERT_TRUE(at != std::string::npos && from.size() == to.size()) << from;
    files.push_back({std::string(good).replace(at, from.size(), to), message});
  }
  expect_refused(files, "m.gguf", read);
}

}  // namespace qkv::test
