#include "core/default_threads.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

namespace qkv {
namespace {

using Texts = std::map<std::string, std::string>;

Surroundings surroundings(const Texts& variables, int processors, const Texts& files) {
  return {.variable = [variables](const char* name) -> const char* {
            const auto found = variables.find(name);
            return found == variables.end() ? nullptr : found->second.c_str();
          },
          .processors = processors,
          .file = [files](const std::string& path) -> std::optional<std::string> {
            const auto found = files.find(path);
            if (found == files.end()) return std::nullopt;
            return found->second;
          }};
}

const std::string kMount2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
const std::string kMount1 =
    "30 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "31 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

TEST(DefaultThreads, VariablesThenProcessorsAndQuota) {
  const Texts limited{{"/proc/self/cgroup", "0::/\n"},
                      {"/proc/self/mountinfo", kMount2},
                      {"/sys/fs/cgroup/cpu.max", "250000 100000\n"}};
  const struct {
    Texts variables;
    int processors;
    Texts files;
    int count;
    ThreadsRule rule;
  } rows[] = {
      {{{"QKV_THREADS", "3"}, {"OMP_NUM_THREADS", "5"}}, 8, limited, 3, ThreadsRule::qkv_threads},
      {{{"QKV_THREADS", ""}, {"OMP_NUM_THREADS", "5"}}, 8, limited, 5, ThreadsRule::omp_num_threads},
      {{{"OMP_NUM_THREADS", " 4 , 3"}}, 8, {}, 4, ThreadsRule::omp_num_threads},
      {{{"OMP_NUM_THREADS", "0"}}, 8, {}, 8, ThreadsRule::affinity},
      {{{"OMP_NUM_THREADS", "-2"}}, 8, {}, 8, ThreadsRule::affinity},
      {{{"OMP_NUM_THREADS", "4x"}}, 8, {}, 8, ThreadsRule::affinity},
      {{{"OMP_NUM_THREADS", ""}}, 8, limited, 2, ThreadsRule::quota},
      {{{"OMP_NUM_THREADS", "99999"}}, 8, {}, kMaxThreads, ThreadsRule::omp_num_threads},
      {{}, 8, limited, 2, ThreadsRule::quota},
      {{}, 2, limited, 2, ThreadsRule::affinity},
      {{}, 1, {}, 1, ThreadsRule::affinity},
      {{}, 5000, {}, kMaxThreads, ThreadsRule::affinity},
  };
  for (const auto& row : rows) {
    const DefaultThreads found = default_threads(surroundings(row.variables, row.processors, row.files));
    EXPECT_EQ(found.count, row.count);
    EXPECT_EQ(found.rule, row.rule) << name_of(found.rule);
  }
  EXPECT_THROW(default_threads(surroundings({{"QKV_THREADS", "two"}}, 8, {})), std::invalid_argument);
}

TEST(DefaultThreads, QuotasOfControlGroups) {
  const auto quota = [](const Texts& files) { return quota_threads(surroundings({}, 64, files)); };
  const auto second = [&](const std::string& group, Texts files) {
    files["/proc/self/cgroup"] = "0::" + group + "\n";
    files["/proc/self/mountinfo"] = kMount2;
    return quota(files);
  };
  EXPECT_EQ(quota({}), std::nullopt);
  EXPECT_EQ(second("/a/b", {}), std::nullopt);
  EXPECT_EQ(second("/a/b", {{"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"}}), std::nullopt);
  EXPECT_EQ(second("/a/b", {{"/sys/fs/cgroup/a/b/cpu.max", "390000 100000\n"}}), 3);
  EXPECT_EQ(second("/a/b", {{"/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n"}}), 1);
  EXPECT_EQ(second("/a/b", {{"/sys/fs/cgroup/a/b/cpu.max", "none\n"}}), std::nullopt);
  // A group above limits, too; in a container the mount's root may be the only one that is there.
  EXPECT_EQ(second("/a/b", {{"/sys/fs/cgroup/a/cpu.max", "200000 100000\n"},
                            {"/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n"}}),
            2);
  EXPECT_EQ(second("/docker/0123", {{"/sys/fs/cgroup/cpu.max", "600000 100000\n"}}), 6);
  const auto first = [&](const std::string& time, const std::string& period) {
    return quota({{"/proc/self/cgroup", "12:memory:/x\n4:cpu,cpuacct:/x\n"},
                  {"/proc/self/mountinfo", kMount1},
                  {"/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", time},
                  {"/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", period}});
  };
  EXPECT_EQ(first("-1\n", "100000\n"), std::nullopt);
  EXPECT_EQ(first("150000\n", "50000\n"), 3);
  EXPECT_EQ(first("1000\n", "100000\n"), 1);
}

}  // namespace
}  // namespace qkv
