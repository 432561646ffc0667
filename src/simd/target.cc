// The list of targets, and the choice among them: the environment's QKV_TARGET at first use, or select_target().
// Highway keeps the choice for every dispatched function of the process.
#include "qkv/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/target.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

int float_lanes() { return static_cast<int>(hwy::HWY_NAMESPACE::Lanes(hwy::HWY_NAMESPACE::ScalableTag<float>())); }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <stdexcept>

#include "simd/amx_tiles.h"
#include "simd/dispatch.h"

namespace qkv {
namespace {

HWY_EXPORT(float_lanes);

struct KnownTarget {
  const char* name;
  std::int64_t bit;
  bool has_tiles = false;
  bool has_pairs = false;
};

// Best first.
constexpr KnownTarget kKnown[] = {{"amx", HWY_AVX3, /*has_tiles=*/true},
                                  {"avx512-bf16", HWY_AVX3, /*has_tiles=*/false, /*has_pairs=*/true},
                                  {"avx512", HWY_AVX3},
                                  {"avx2", HWY_AVX2},
                                  {"sse4", HWY_SSE4},
                                  {"neon", HWY_NEON},
                                  {"wasm", HWY_WASM},
                                  {"portable", HWY_SCALAR}};

constexpr std::int64_t kFused = HWY_AVX3 | HWY_AVX2 | HWY_NEON;

bool has_bf16_pairs() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

bool is_usable(const KnownTarget& target) {
  static const std::int64_t usable = hwy::SupportedTargets() | HWY_SCALAR;
  return (usable & (HWY_TARGETS)&target.bit) != 0 && (!target.has_tiles || has_amx()) &&
         (!target.has_pairs || has_bf16_pairs());
}

const KnownTarget& best_target() {
  for (const KnownTarget& target : kKnown) {
    if (is_usable(target)) return target;
  }
  return kKnown[std::size(kKnown) - 1];
}

// The selected target, and its lanes, which only a call into it can tell.
const KnownTarget* selected = nullptr;
std::mutex selection_mutex;

void run_on(const KnownTarget& target) {
  hwy::GetChosenTarget().Update(target.bit);
  selected = &target;
}

const KnownTarget& usable_target(std::string_view name, std::string_view origin) {
  std::vector<std::string_view> names;
  for (const KnownTarget& target : kKnown) {
    if (!is_usable(target)) continue;
    if (name == target.name) return target;
    names.emplace_back(target.name);
  }
  const bool was_left_out = std::any_of(std::begin(kKnown), std::end(kKnown), [&](const KnownTarget& target) {
    return name == target.name && (hwy::SupportedTargets() & target.bit) != 0;
  });
  throw std::invalid_argument(fmt::format("{} \"{}\" is not {}; usable: {}{}", origin, name,
                                          was_left_out ? "in this build" : "usable here", fmt::join(names, ", "),
                                          was_left_out ? "; cmake -DQKV_TARGETS=all builds every target" : ""));
}

void select_default() {
  const char* name = std::getenv("QKV_TARGET");
  run_on(name == nullptr || *name == '\0' ? best_target() : usable_target(name, "QKV_TARGET"));
}

}  // namespace

inline namespace simd {

void ensure_target() {
  const std::lock_guard lock(selection_mutex);
  if (selected == nullptr) select_default();
}

bool uses_fused() { return (kFused & selected->bit) != 0; }

bool uses_bf16_pairs() { return selected->has_pairs; }

bool uses_amx() { return selected->has_tiles && borrow_tiles(); }

bool uses_byte_tiles() { return has_byte_tiles() && uses_amx(); }

}  // namespace simd

std::string selected_target() {
  ensure_target();
  return selected->name;
}

void select_target(std::string_view name) {
  const std::lock_guard lock(selection_mutex);
  if (name.empty()) {
    select_default();
  } else {
    run_on(usable_target(name, "target"));
  }
}

std::vector<Target> targets() {
  ensure_target();
  const std::lock_guard lock(selection_mutex);
  const KnownTarget& before = *selected;
  std::vector<Target> list;
  for (const KnownTarget& target : kKnown) {
    if (!(HWY_TARGETS & target.bit)) continue;
    Target entry{.name = target.name, .usable = is_usable(target), .fused = (kFused & target.bit) != 0};
    if (entry.usable) {
      run_on(target);
      entry.lanes = HWY_DYNAMIC_DISPATCH(float_lanes)();
    }
    entry.selected = &target == &before;
    list.push_back(std::move(entry));
  }
  run_on(before);
  return list;
}

}  // namespace qkv
#endif  // HWY_ONCE
