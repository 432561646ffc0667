// How many threads there are, by variables, processors and quotas of control groups.
#include "core/default_threads.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

namespace qkv {
namespace {

using Texts = std::map<std::string, std::string>;

Surroundings surroundings(const Texts& variables, int processors, const Texts& files) {
  const auto find = [](const Texts& texts, const std::string& name) {
    const auto found = texts.find(name);
    return found == texts.end() ? nullptr : &found->second;
  };
  return {
      .variable = [=](const char* name) { return find(variables, name) ? find(variables, name)->c_str() : nullptr; },
      .processors = processors,
      .file =
          [=](const std::string& path) {
            return find(files, path) ? std::optional(*find(files, path)) : std::nullopt;
          }};
}

// Files of control groups of both versions: quotas by their folders.
Texts second(const std::string& group, const Texts& quotas) {
  Texts files{{"/proc/self/cgroup", "0::" + group + "\n"},
              {"/proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"}};
  for (const auto& [folder, quota] : quotas) files["/sys/fs/cgroup" + folder + "/cpu.max"] = quota + "\n";
  return files;
}
Texts first(const std::string& time, const std::string& period) {
  return {{"/proc/self/cgroup", "12:memory:/x\n4:cpu,cpuacct:/x\n"},
          {"/proc/self/mountinfo",
           "30 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
           "31 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"},
          {"/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", time + "\n"},
          {"/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", period + "\n"}};
}

TEST(DefaultThreads, VariablesThenProcessorsAndQuota) {
  using enum ThreadsRule;
  const Texts limited = second("/", {{"", "250000 100000"}});
  const struct {
    Texts variables;
    int processors;
    Texts files;
    int count;
    ThreadsRule rule;
  } rows[] = {
      {{{"QKV_THREADS", "3"}, {"OMP_NUM_THREADS", "5"}}, 8, limited, 3, qkv_threads},
      {{{"QKV_THREADS", ""}, {"OMP_NUM_THREADS", "5"}}, 8, limited, 5, omp_num_threads},
      {{{"OMP_NUM_THREADS", " 4 , 3"}}, 8, {}, 4, omp_num_threads},
      {{{"OMP_NUM_THREADS", "0"}}, 8, {}, 8, affinity},
      {{{"OMP_NUM_THREADS", "-2"}}, 8, {}, 8, affinity},
      {{{"OMP_NUM_THREADS", "4x"}}, 8, {}, 8, affinity},
      {{{"OMP_NUM_THREADS", ""}}, 8, limited, 2, quota},
      {{{"OMP_NUM_THREADS", "99999"}}, 8, {}, kMaxThreads, omp_num_threads},
      {{}, 8, limited, 2, quota},
      {{}, 2, limited, 2, affinity},
      {{}, 1, {}, 1, affinity},
      {{}, 5000, {}, kMaxThreads, affinity},
      {{}, 64, second("/a/b", {}), 64, affinity},
      {{}, 64, second("/a/b", {{"/a/b", "max 100000"}}), 64, affinity},
      {{}, 64, second("/a/b", {{"/a/b", "390000 100000"}}), 3, quota},
      {{}, 64, second("/a/b", {{"/a/b", "50000 100000"}}), 1, quota},
      {{}, 64, second("/a/b", {{"/a/b", "none"}}), 64, affinity},
      // A group above limits, too; in a container the mount's root may be the only one that is there.
      {{}, 64, second("/a/b", {{"/a", "200000 100000"}, {"/a/b", "400000 100000"}}), 2, quota},
      {{}, 64, second("/docker/0123", {{"", "600000 100000"}}), 6, quota},
      {{}, 64, first("-1", "100000"), 64, affinity},
      {{}, 64, first("150000", "50000"), 3, quota},
      {{}, 64, first("1000", "100000"), 1, quota},
  };
  for (const auto& row : rows) {
    const DefaultThreads found = default_threads(surroundings(row.variables, row.processors, row.files));
    EXPECT_EQ(found.count, row.count) << "row " << &row - rows;
    EXPECT_EQ(found.rule, row.rule) << "row " << &row - rows << ": " << name_of(found.rule);
  }
  EXPECT_THROW(default_threads(surroundings({{"QKV_THREADS", "two"}}, 8, {})), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
