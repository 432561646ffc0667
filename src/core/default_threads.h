// How many threads a process computes with where nobody names a number.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "qkv/threads.h"

namespace qkv::inline core {

// What the rule is made of: the environment, the processors that the process may run on, and the text of a file, none
// where it cannot be read.
struct Surroundings {
  std::function<const char*(const char* name)> variable;
  int processors = 1;
  std::function<std::optional<std::string>(const std::string& path)> file;
};

struct DefaultThreads {
  int count = 1;
  ThreadsRule rule = ThreadsRule::affinity;
};

// The first of QKV_THREADS (std::invalid_argument where it is no number from 1 to kMaxThreads), the first number of
// OMP_NUM_THREADS (ignored unless it is 1 or more), and the smaller of processors and quota.
DefaultThreads default_threads(const Surroundings& surroundings);

// Whole processors that the control groups of the process (v1 and v2, with those above them) leave it, at least 1. None
// without a quota.
std::optional<int> quota_threads(const Surroundings& surroundings);

// Those of this process.
Surroundings process_surroundings();

}  // namespace qkv::inline core
