// What a call costs: the memory that it leaves, and the most that it takes, in a process of its own.
#pragma once

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/files_for_test.h"
#include "qkv/memory.h"
#include "qkv/threads.h"

namespace qkv::test {

inline constexpr std::int64_t kMebibyte = 1 << 20;

struct Memory {
  std::int64_t resident = 0, peak = 0;  // bytes
};

inline Memory memory() {
  const std::string status = slurp("/proc/self/status");
  const auto bytes = [&](const std::string& name) {
    return std::stoll(status.substr(status.find(name + ":") + name.size() + 1)) * 1024;
  };
  return {.resident = bytes("VmRSS"), .peak = bytes("VmHWM")};
}

// Of load(), on one thread. What it returns is there while the memory that it leaves is measured.
template <class Load>
Memory cost(const Load& load) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  trim_memory();  // What earlier tests have left: the child's peak begins at what it is born with.
  malloc_trim(0);
  const pid_t child = fork();
  if (child == 0) {
    set_threads(1);
    const Memory before = memory();
    [[maybe_unused]] const auto kept = load();
    const Memory after = memory();
    const Memory added{.resident = after.resident - before.resident, .peak = after.peak - before.resident};
    _exit(write(ends[1], &added, sizeof added) == sizeof added ? 0 : 1);
  }
  close(ends[1]);
  Memory added;
  EXPECT_EQ(read(ends[0], &added, sizeof added), static_cast<ssize_t>(sizeof added));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return added;
}

}  // namespace qkv::test
