// Multiply-adds on a full tile of registers, in bursts of about a millisecond; the best burst counts.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/peak.cc"
#include "core/refuse.h"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/bf16_products-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Runs at least `wanted` operations, adds their exact number to `done`, and returns a number that depends on all of
// them. Step: as in multiply_tile(), of so many products in a lane. Each accumulator starts from another value: equal
// ones would be computed once.
template <class T, class Step = MultiplyAdd, int kProducts = 1>
T multiply_and_add(Vec<T> factors, std::int64_t wanted, std::int64_t& done) {
  constexpr std::int64_t kStep = 2 * kProducts * kTileRows * kTileVectors * kLanes<T>;
  const Tag<T> d;
  Vec<T> sum[kTileRows][kTileVectors];
  QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = hn::Set(d, T(r * kTileVectors + c));
  }
  const std::int64_t steps = wanted / kStep + 1;
  for (std::int64_t i = 0; i < steps; ++i) {
    QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) sum[r][c] = Step::apply(factors, factors, sum[r][c]);
    }
  }
  done += steps * kStep;
  Vec<T> total = hn::Zero(d);
  QKV_UNROLL for (int r = 0; r < kTileRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kTileVectors; ++c) total = hn::Add(total, sum[r][c]);
  }
  return hn::GetLane(total);
}

float multiply_and_add_f32(float factor, std::int64_t wanted, std::int64_t& done) {
  return multiply_and_add<float>(hn::Set(Tag<float>(), factor), wanted, done);
}

// With pairs of bf16; the CPU must have them.
float multiply_pairs([[maybe_unused]] float factor, [[maybe_unused]] std::int64_t wanted,
                     [[maybe_unused]] std::int64_t& done) {
#if HWY_TARGET == HWY_AVX3
  const Vec<float> half = hn::Set(Tag<float>(), factor);
  return multiply_and_add<float, MultiplyPairs, 2>(pair_floats(half, half), wanted, done);
#else
  return 0;
#endif
}

double multiply_and_add_f64(double factor, std::int64_t wanted, std::int64_t& done) {
  return multiply_and_add<double>(hn::Set(Tag<double>(), factor), wanted, done);
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>
#include <chrono>

#include "simd/amx_tiles.h"
#include "simd/dispatch.h"

namespace qkv::inline simd {
namespace {

HWY_EXPORT(multiply_and_add_f32);
HWY_EXPORT(multiply_and_add_f64);
HWY_EXPORT(multiply_pairs);

#ifdef __x86_64__

// Four sums in turn, each of 16 x 16 numbers and 32 products for each.
void multiply_whole_tiles(std::int64_t wanted, std::int64_t& done) {
  constexpr std::int64_t kStep = 4 * 2 * 16 * 16 * 32;
  const TileSession session;
  clear_tile<0>(), clear_tile<1>(), clear_tile<2>(), clear_tile<3>();
  clear_tile<4>(), clear_tile<5>(), clear_tile<6>(), clear_tile<7>();
  const std::int64_t steps = wanted / kStep + 1;
  for (std::int64_t i = 0; i < steps; ++i) {
    multiply_tiles<0, 4, 6>(), multiply_tiles<1, 4, 7>(), multiply_tiles<2, 5, 6>(), multiply_tiles<3, 5, 7>();
  }
  done += steps * kStep;
}

#else

void multiply_whole_tiles(std::int64_t, std::int64_t&) {}

#endif  // __x86_64__

// Bursts of about a millisecond whatever the speed of the target: each one sizes the next.
template <class Burst>
double best_rate(Burst burst) {
  using Clock = std::chrono::steady_clock;
  constexpr double kBurstSeconds = 1e-3;
  constexpr double kSeconds = 0.05;
  double best = 0.0;
  std::int64_t wanted = 100'000;
  const Clock::time_point start = Clock::now();
  Clock::time_point before = start;
  do {
    std::int64_t done = 0;
    burst(wanted, done);
    const Clock::time_point after = Clock::now();
    const double seconds = std::max(1e-9, std::chrono::duration<double>(after - before).count());
    best = std::max(best, static_cast<double>(done) / seconds);
    wanted = static_cast<std::int64_t>(best * kBurstSeconds);
    before = after;
  } while (std::chrono::duration<double>(before - start).count() < kSeconds);
  return best;
}

}  // namespace

double peak_gflops(Dtype dtype) {
  ensure_target();
  const bool tiles = dtype == Dtype::bf16 && uses_amx(), pairs = dtype == Dtype::bf16 && uses_bf16_pairs();
  if (tiles) return 1e-9 * best_rate(multiply_whole_tiles);
  // Volatile, so that nothing is computed beforehand. Sums stay normal numbers.
  volatile double factor = 0.5;
  volatile double result = 0.0;
  switch (dtype) {
    case Dtype::bf16:
      if (pairs) {
        return 1e-9 * best_rate([&](std::int64_t wanted, std::int64_t& done) {
                 result = HWY_DYNAMIC_DISPATCH(multiply_pairs)(static_cast<float>(factor), wanted, done);
               });
      }
      [[fallthrough]];
    case Dtype::f32:
      return 1e-9 * best_rate([&](std::int64_t wanted, std::int64_t& done) {
               result = HWY_DYNAMIC_DISPATCH(multiply_and_add_f32)(static_cast<float>(factor), wanted, done);
             });
    case Dtype::f64:
      return 1e-9 * best_rate([&](std::int64_t wanted, std::int64_t& done) {
               result = HWY_DYNAMIC_DISPATCH(multiply_and_add_f64)(factor, wanted, done);
             });
    default:
      refuse("peak_gflops", "the type is {}; it must be f32, f64 or bf16", name_of(dtype));
  }
}

}  // namespace qkv::inline simd
#endif  // HWY_ONCE
