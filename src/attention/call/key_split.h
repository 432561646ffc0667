// Keys spread over threads where there are not enough blocks or heads for all of them: chunks are computed by whoever
// is free, and their partial results merged in index order, so that no bit depends on the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "qkv/threads.h"
#include "simd/scratch.h"

namespace qkv::inline attending {

struct KeySplit {
  std::vector<std::int64_t> chunks;  // of each unit of work, at least one
  std::size_t part_bytes = 0;        // of a unit's partial result
  std::size_t unit_bytes = 0;        // what else is kept of a unit that is worked on
  std::size_t scratch_bytes = 0;     // of a thread that takes chunks
  std::size_t whole_bytes = 0;       // of a thread that takes whole units

  // 0: there are units for all threads, or nothing to split, and each takes whole ones. Else the chunks of all units
  // are spread over the threads, so many of each unit at a time, which bounds the memory of partial results.
  std::int64_t wave(int threads) const;
  // Threads that have something to do.
  int busy_threads(int threads) const;
  // Memory for tiles and partial results.
  std::size_t workspace(int threads) const;

  // Where wave() is not 0: chunk(unit, index, scratch, part) gives each partial result, merge(unit, part, next) adds
  // the next one to those in front of it, finish(unit, scratch, part) has the sum.
  template <class Chunk, class Merge, class Finish>
  void run(int threads, const Chunk& chunk, const Merge& merge, const Finish& finish) const;
};

template <class Chunk, class Merge, class Finish>
void KeySplit::run(int threads, const Chunk& chunk, const Merge& merge, const Finish& finish) const {
  struct Unit {
    std::mutex mutex{};
    std::int64_t merged = 0;
    std::byte* sum = nullptr;            // of the chunks merged so far
    std::vector<std::byte*> free{};      // for parts; the last one used is still in a cache
    std::vector<std::byte*> computed{};  // and not yet merged; chunk i's at i % wave
  };
  const std::int64_t wave = this->wave(threads), most = *std::max_element(chunks.begin(), chunks.end());
  const auto parts = static_cast<std::size_t>(wave + 1);
  std::vector<Unit> units(chunks.size());
  std::vector<Scratch> scratch(static_cast<std::size_t>(threads));
  Scratch memory;
  std::byte* part = memory.get(chunks.size() * parts * part_bytes).take_bytes(chunks.size() * parts * part_bytes);
  for (Unit& unit : units) {
    unit.computed.resize(parts - 1);
    unit.free.reserve(parts);
    for (std::size_t i = 0; i < parts; ++i, part += part_bytes) unit.free.push_back(part);
  }
  for (std::int64_t first = 0; first < most; first += wave) {
    const std::int64_t at_once = std::min(wave, most - first);
    parallel_for(static_cast<std::int64_t>(chunks.size()) * at_once, threads, [&](std::int64_t task, int worker) {
      const std::int64_t u = task / at_once, index = first + task % at_once;
      const std::int64_t all = chunks[static_cast<std::size_t>(u)];
      if (index >= all) return;
      Unit& unit = units[static_cast<std::size_t>(u)];
      std::unique_lock lock(unit.mutex);
      std::byte* own = unit.free.back();
      unit.free.pop_back();
      lock.unlock();
      const ScratchRoom tiles = scratch[static_cast<std::size_t>(worker)].get(scratch_bytes);
      chunk(u, index, tiles, own);
      lock.lock();
      const auto computed = [&](std::int64_t i) -> auto& { return unit.computed[static_cast<std::size_t>(i % wave)]; };
      computed(index) = own;
      // Merged by whoever brings the part that was missing.
      for (; unit.merged < all && computed(unit.merged) != nullptr; ++unit.merged) {
        std::byte* next = std::exchange(computed(unit.merged), nullptr);
        if (unit.merged == 0) {
          unit.sum = next;
        } else {
          merge(u, unit.sum, next);
          unit.free.push_back(next);
        }
      }
      if (unit.merged == all) finish(u, tiles, unit.sum);
    });
  }
}

}  // namespace qkv::inline attending
