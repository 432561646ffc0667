// The default number of threads: environment variables, then processors and the quota of control groups.
#include "core/default_threads.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace qkv::inline core {
namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// The whole text is the number, but for blanks around it.
template <class Number>
std::optional<Number> number_of(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool has(const std::vector<std::string_view>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Where a hierarchy of control groups is mounted, and the group that its root is.
struct Mount {
  std::string point, root;
};

// Of /proc/self/mountinfo: "36 35 0:31 ROOT POINT options fields - TYPE source super-options".
std::optional<Mount> mount_of(std::string_view mounts, bool second_version) {
  for (const std::string_view line : split(mounts, '\n')) {
    const std::vector<std::string_view> fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (dash - fields.begin() < 5 || fields.end() - dash < 4) continue;
    if (dash[1] != (second_version ? "cgroup2" : "cgroup")) continue;
    if (second_version || has(split(dash[3], ','), "cpu")) return Mount{std::string(fields[4]), std::string(fields[3])};
  }
  return std::nullopt;
}

// Of /proc/self/cgroup: "0::PATH" or "4:cpu,cpuacct:PATH".
std::optional<std::string> group_of(std::string_view groups, bool second_version) {
  for (const std::string_view line : split(groups, '\n')) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (second_version ? line.starts_with("0::") : has(split(controllers, ','), "cpu")) {
      return std::string(line.substr(second + 1));
    }
  }
  return std::nullopt;
}

// Of time in a period; none where there is no limit.
std::optional<double> share(std::string_view quota, std::string_view period) {
  const auto time = number_of<std::int64_t>(quota), of = number_of<std::int64_t>(period);
  if (!time || !of || *time <= 0 || *of <= 0) return std::nullopt;
  return static_cast<double>(*time) / static_cast<double>(*of);
}

std::optional<double> share_of_folder(const Surroundings& surroundings, const std::string& folder,
                                      bool second_version) {
  if (second_version) {
    const std::string text = surroundings.file(folder + "/cpu.max").value_or("");  // "max 100000" or "150000 100000"
    const std::size_t blank = std::min(text.find(' '), text.size());
    return share(std::string_view(text).substr(0, blank), std::string_view(text).substr(blank));
  }
  return share(surroundings.file(folder + "/cpu.cfs_quota_us").value_or(""),
               surroundings.file(folder + "/cpu.cfs_period_us").value_or(""));
}

}  // namespace

std::optional<int> quota_threads(const Surroundings& surroundings) {
  const std::string groups = surroundings.file("/proc/self/cgroup").value_or("");
  const std::string mounts = surroundings.file("/proc/self/mountinfo").value_or("");
  double least = std::numeric_limits<double>::infinity();
  for (const bool second_version : {true, false}) {
    const auto mount = mount_of(mounts, second_version);
    auto group = group_of(groups, second_version);
    if (!mount || !group) continue;
    // Below the root that is mounted; in a container a group may be named as the host does, beyond what is mounted.
    if (mount->root != "/" && group->starts_with(mount->root)) group->erase(0, mount->root.size());
    for (;;) {
      while (group->ends_with('/')) group->pop_back();
      if (const auto limit = share_of_folder(surroundings, mount->point + *group, second_version)) {
        least = std::min(least, *limit);
      }
      if (group->empty()) break;
      group->erase(group->rfind('/') == std::string::npos ? 0 : group->rfind('/'));
    }
  }
  if (least > kMaxThreads) return std::nullopt;
  return std::max(1, static_cast<int>(least));
}

DefaultThreads default_threads(const Surroundings& surroundings) {
  if (const char* text = surroundings.variable("QKV_THREADS"); text != nullptr && *text != '\0') {
    const std::string_view digits(text);
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size() || value < 1 || value > kMaxThreads) {
      throw std::invalid_argument(
          fmt::format("QKV_THREADS is \"{}\"; it must be a number from 1 to {}", digits, kMaxThreads));
    }
    return {value, ThreadsRule::qkv_threads};
  }
  if (const char* text = surroundings.variable("OMP_NUM_THREADS"); text != nullptr) {
    const auto value = number_of<int>(split(text, ',')[0]);
    if (value && *value >= 1) return {std::min(*value, kMaxThreads), ThreadsRule::omp_num_threads};
  }
  const int processors = std::clamp(surroundings.processors, 1, kMaxThreads);
  const int quota = quota_threads(surroundings).value_or(processors);
  if (quota < processors) return {quota, ThreadsRule::quota};
  return {processors, ThreadsRule::affinity};
}

Surroundings process_surroundings() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int processors =
      sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : hardware_threads();
  return {.variable = [](const char* name) -> const char* { return std::getenv(name); },
          .processors = processors,
          .file = [](const std::string& path) -> std::optional<std::string> {
            std::ifstream file(path);
            if (!file) return std::nullopt;
            std::ostringstream text;
            text << file.rdbuf();
            return text.str();
          }};
}

}  // namespace qkv::inline core
