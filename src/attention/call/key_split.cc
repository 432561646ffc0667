// Hands chunks of keys to threads and merges their partial results in order.
#include "attention/call/key_split.h"

#include "attention/call/memory_count.h"

namespace qkv::inline attending {
namespace {

constexpr std::int64_t kMostWave = 64, kMostOfThread = 8;  // chunks of a unit, or as many for each thread if more

}  // namespace

std::int64_t KeySplit::wave(int threads) const {
  const auto units = static_cast<std::int64_t>(chunks.size());
  if (threads < 2 || units == 0 || units >= 2 * threads) return 0;
  const auto [least, most] = std::minmax_element(chunks.begin(), chunks.end());
  if (*most < 2 || (units == threads && *least == *most)) return 0;
  const std::size_t used = scratch_bytes + MemoryCount::kSmallBytes;
  if (used >= Scratch::kMostBytes) return 0;
  const std::size_t room = static_cast<std::size_t>(threads) * (Scratch::kMostBytes - used) / chunks.size();
  const auto fitting = static_cast<std::int64_t>((room - std::min(room, unit_bytes)) / part_bytes) - 1;
  const std::int64_t wave = std::min({*most, std::max(kMostWave, kMostOfThread * threads / units), fitting});
  return wave > 1 ? wave : 0;
}

int KeySplit::busy_threads(int threads) const {
  const std::int64_t most = wave(threads);
  std::int64_t tasks = 0;
  for (const std::int64_t count : chunks) tasks += most == 0 ? 1 : std::min(count, most);
  return static_cast<int>(std::min<std::int64_t>(threads, tasks));
}

std::size_t KeySplit::workspace(int threads) const {
  const auto busy = static_cast<std::size_t>(busy_threads(threads)), parts = static_cast<std::size_t>(wave(threads));
  if (parts == 0) return busy * (whole_bytes + unit_bytes);
  return busy * scratch_bytes + chunks.size() * ((parts + 1) * part_bytes + unit_bytes);
}

}  // namespace qkv::inline attending
