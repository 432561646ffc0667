// Asks Linux and the allocator for the memory of the process.
#include "compare/memory_use.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace qkv::comparison {
namespace {

// Of /proc/self/status, in bytes.
std::optional<std::int64_t> peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return std::nullopt;
}

// Makes the peak what is in use now.
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return static_cast<bool>(file);
}

}  // namespace

std::optional<std::int64_t> peak_growth(const std::function<void()>& work) {
  malloc_trim(0);
  const bool is_reset = reset_peak();
  const std::optional<std::int64_t> before = peak_memory();
  work();
  const std::optional<std::int64_t> after = peak_memory();
  if (!is_reset || !before || !after) return std::nullopt;
  return std::max<std::int64_t>(0, *after - *before);
}

std::int64_t allocated_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace qkv::comparison
