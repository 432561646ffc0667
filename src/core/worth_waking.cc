// Divides a call's work by what a thread must get.
#include "core/worth_waking.h"

#include <algorithm>

#include "core/thread_pool.h"
#include "qkv/threads.h"

namespace qkv::inline core {
namespace {

LeastShare least;

}  // namespace

int worth_waking(int threads, double multiply_adds, double bytes) {
  if (threads <= 0) threads = qkv::threads();
  const double shares = std::max(multiply_adds / least.multiply_adds, bytes / least.bytes);
  return static_cast<int>(std::clamp<double>(shares, 1, threads));
}

int worth_sharing(int threads, double multiply_adds, double bytes) {
  if (threads <= 0) threads = qkv::threads();
  return std::max(worth_waking(threads, multiply_adds, bytes), std::min(threads, 1 + process_pool().awake()));
}

void set_least_share(const LeastShare& share) { least = share; }

}  // namespace qkv::inline core
