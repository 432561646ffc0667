#include "kernels/attention_schedule.h"

#include <algorithm>

#include "kernels/view_checks.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

constexpr std::int64_t kMostWave = 64;
constexpr std::int64_t kLeastTasks = 8;  // per thread, so that all end at about the same time

std::size_t times(std::int64_t count, std::size_t bytes) { return static_cast<std::size_t>(count) * bytes; }

}  // namespace

AttentionSchedule::AttentionSchedule(const AttentionProblem& problem, const AttentionOptions& options,
                                     const AttentionExtras& extras)
    : empty(problem.batch == 0 || problem.heads == 0 || problem.q_len == 0),
      sums(extras.received || extras.block_weights),
      statistics(sums || extras.row_maximum || extras.entropy || extras.top_keys),
      asked_threads(std::min(options.threads > 0 ? options.threads : qkv::threads(), kMaxThreads)) {
  if (options.threads < 0) fail("threads must be 0 (default) or more");
  if (options.memory_limit < 0) fail("memory_limit must be 0 (none) or more bytes, got {}", options.memory_limit);
  threads = asked_threads;
  if (empty) return;
  AttentionTask first = problem.task(0, 0);
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    if (is_decoded(problem.packed ? problem.task(b, 0) : first)) decoded.push_back(b);
    if (!problem.packed && decoded.empty()) break;  // all sequences are alike
  }
  prefill = statistics || decoded.size() < static_cast<std::size_t>(problem.batch);
  first.q_len = problem.q_len;  // scratch must do for all sequences
  first.k_len = problem.k_len;
  first.precision = problem.precision;
  block = plan_forward(first);
  const std::int64_t all_heads = problem.batch * problem.heads;
  std::int64_t together = block.blocks_together;
  const auto tasks_of_head = [&] { return divide_up(problem.q_len, together * block.block_queries); };
  while (together > 1 && all_heads * tasks_of_head() < kLeastTasks * threads) together /= 2;
  task_queries = together * block.block_queries;
  tasks_per_head = tasks_of_head();
  tasks = all_heads * (sums ? 1 : tasks_per_head);
  if (prefill && !statistics) folded = FoldedHeads(problem, first, block.block_queries, asked_threads);
  block.scratch_bytes = std::max(block.scratch_bytes, folded.scratch_bytes());

  const std::size_t element = size_of(problem.accumulation);
  decode.group = problem.heads / problem.kv_heads;
  decode.units = static_cast<std::int64_t>(decoded.size()) * problem.kv_heads;
  decode.chunks = divide_up(problem.k_len, kChunkKeys);
  decode.kernel = plan_decode(first, decode.group);
  decode.part_bytes = times(decode.group * decode.kernel.row_elements, element);
  chosen_rows = extras.rows ? extras.rows.size(0) : 0;
  if (chosen_rows > 0) {
    const DecodePlan alone = plan_decode(first, 1);
    row_bytes = std::max(block.scratch_bytes, alone.scratch_bytes + times(2 * alone.row_elements, element));
  }

  const auto limit = static_cast<std::size_t>(options.memory_limit);
  while (limit > 0 && threads > 1 && workspace(threads) > limit) --threads;
  if (limit > 0 && workspace(threads) > limit) {
    fail("one thread needs {} bytes besides inputs and outputs, memory_limit is {}", workspace(threads), limit);
  }
}

std::int64_t DecodeSchedule::wave(int threads) const {
  return units < 2 * threads && chunks > 1 && threads > 1 ? std::min(chunks, kMostWave) : 0;
}

int DecodeSchedule::busy_threads(int threads) const {
  const std::int64_t some = wave(threads);
  return static_cast<int>(std::min<std::int64_t>(threads, some == 0 ? units : units * some));
}

std::size_t DecodeSchedule::workspace(int threads) const {
  const std::int64_t some = wave(threads);
  const std::int64_t busy = busy_threads(threads);
  if (some == 0) return times(busy, kernel.scratch_bytes + 2 * part_bytes);
  return times(busy, kernel.scratch_bytes) + times(units * (some + 1), part_bytes) +
         times(units * group, sizeof(AttentionTask));
}

int AttentionSchedule::busy_threads() const {
  const auto blocks_busy = prefill ? static_cast<int>(std::min<std::int64_t>(threads, tasks)) : 0;
  return decoded.empty() ? blocks_busy : std::max(blocks_busy, decode.busy_threads(threads));
}

std::size_t AttentionSchedule::workspace(int with_threads) const {
  std::size_t most = times(std::min<std::int64_t>(with_threads, chosen_rows), row_bytes);
  if (prefill) most = std::max(most, times(std::min<std::int64_t>(with_threads, tasks), block.scratch_bytes));
  return decoded.empty() ? most : std::max(most, decode.workspace(with_threads));
}

}  // namespace qkv
