// Decides blocks, threads and memory of a forward call.
#include "attention/forward/forward_schedule.h"

#include <algorithm>

#include "attention/call/attention_problem.h"
#include "attention/call/view_checks.h"
#include "attention/tile/interval_masks.h"
#include "core/mathematics.h"
#include "qkv/threads.h"

namespace qkv::inline attending {
namespace {

constexpr std::int64_t kLeastTasks = 8;  // per thread, so that all end at about the same time

std::size_t times(std::int64_t count, std::size_t bytes) { return static_cast<std::size_t>(count) * bytes; }

// Whole chunks of keys that sequences see whose queries are so few that heads may share a block; on average.
std::int64_t chunks_of_few(const AttentionProblem& problem, std::int64_t block_queries) {
  std::int64_t keys = 0, sequences = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t q_len = problem.query_length(b);
    if (q_len < 2 || 2 * q_len > block_queries) continue;
    const KeyRange range = keys_of_queries(problem.task(b, 0), 0, q_len);
    keys += range.last - range.first;
    ++sequences;
  }
  return sequences == 0 ? 1 : std::max<std::int64_t>(keys / sequences / kChunkKeys, 1);
}

}  // namespace

AttentionSchedule::AttentionSchedule(const AttentionProblem& problem, const AttentionOptions& options,
                                     const AttentionExtras& extras)
    : empty(problem.batch == 0 || problem.heads == 0 || problem.q_len == 0),
      sums(extras.received || extras.block_weights),
      statistics(std::ranges::any_of(
          attention_outputs(), [&](const OutputDescription& kind) { return kind.is_statistic && extras.*kind.view; })),
      asked_threads(threads_of(options)) {
  allowed_threads = asked_threads;
  if (empty) return;
  threads = useful_threads(problem, asked_threads, 2);
  AttentionTask first = problem.task(0, 0);
  if (problem.packed || is_single_query(first)) single_queries.reserve(static_cast<std::size_t>(problem.batch));
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    if (is_single_query(problem.packed ? problem.task(b, 0) : first)) single_queries.push_back(b);
    if (!problem.packed && single_queries.empty()) break;  // all sequences are alike
  }
  prefill = statistics || single_queries.size() < static_cast<std::size_t>(problem.batch);
  first.q_len = problem.q_len;
  first.k_len = problem.k_len;
  choose_kernel(first, problem.precision);
  block = plan_forward(first);
  if (statistics && !single_queries.empty()) {  // single queries go through the blocks as well, and are exact
    AttentionTask single = first;
    single.q_len = 1;
    choose_kernel(single, problem.precision);
    block.scratch_bytes = std::max(block.scratch_bytes, plan_forward(single).scratch_bytes);
  }
  const std::int64_t all_heads = problem.batch * problem.heads;
  // A block of the next task could not follow the first ones of several.
  std::int64_t together = sums && threads > 1 ? 1 : block.blocks_together;
  if (sums) block.blocks.rest = 0;  // their segments are whole blocks
  const std::int64_t block_queries = block.blocks.queries;
  const auto tasks_of_head = [&] {
    return divide_up(std::max<std::int64_t>(problem.q_len - block.blocks.rest, 1), together * block_queries);
  };
  while (together > 1 && all_heads * tasks_of_head() < kLeastTasks * threads) together /= 2;
  task_queries = together * block_queries;
  tasks_per_head = tasks_of_head();
  tasks = all_heads * tasks_per_head;
  if (sums) sum_sizes = WeightSumSizes(first, all_heads);
  split.part_bytes = block.part_bytes;
  split.unit_bytes = sizeof(SplitBlock);
  may_split = prefill && !statistics && !extras.weights && !extras.logits && threads > 1 && problem.k_len > kChunkKeys;
  if (prefill && !statistics) fold_heads(problem, first);
  block.scratch_bytes = std::max(block.scratch_bytes, folded.scratch_bytes());

  const std::size_t element = size_of(problem.accumulation);
  single_query.group = problem.heads / problem.kv_heads;
  single_query.kernel = plan_single_query(first, single_query.group);
  KeySplit& keys = single_query.split;
  keys.chunks.reserve(single_queries.size() * static_cast<std::size_t>(problem.kv_heads));
  for (const std::int64_t b : single_queries) {
    const std::int64_t chunks = std::max<std::int64_t>(divide_up(problem.key_length(b), kChunkKeys), 1);
    keys.chunks.insert(keys.chunks.end(), static_cast<std::size_t>(problem.kv_heads), chunks);
  }
  keys.part_bytes = times(single_query.group * single_query.kernel.row_elements, element);
  keys.unit_bytes = times(single_query.group, sizeof(AttentionTask));
  keys.scratch_bytes = single_query.kernel.scratch_bytes;
  keys.whole_bytes = keys.scratch_bytes + 2 * keys.part_bytes;
  if (!problem.chosen_rows().empty()) {
    list_chosen_blocks(problem.chosen_rows());
    const SingleQueryPlan alone = plan_single_query(first, 1);
    row_bytes = std::max(block.scratch_bytes, alone.scratch_bytes + times(2 * alone.row_elements, element));
  }

  memory = problem.memory();
  const int within = memory.threads_within(threads, [&](int count) { return pass_bytes(count); });
  if (within < threads) allowed_threads = threads = within;
}

// Where keys can be split, heads need not stay apart to give work to all threads.
void AttentionSchedule::fold_heads(const AttentionProblem& problem, const AttentionTask& longest) {
  const auto fold = [&](std::int64_t for_threads) {
    folded = FoldedHeads(problem, longest, block.blocks.queries, for_threads);
    split.scratch_bytes = std::max(block.scratch_bytes, folded.scratch_bytes());
  };
  const std::int64_t chunks = may_split ? chunks_of_few(problem, block.blocks.queries) : 1;
  fold(divide_up(threads, chunks));
  if (may_split) list_split_blocks(problem);
  if (chunks == 1 || split.wave(threads) > 0) return;
  fold(threads);
  split.chunks.clear();
}

// None if there are enough for all threads.
void AttentionSchedule::list_split_blocks(const AttentionProblem& problem) {
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t h = 0; h < problem.heads; ++h) {
      const AttentionTask task = problem.task(b, h);
      if (is_single_query(task)) break;
      const bool folds = folded.together(task.q_len) > 1;
      if (folds && !folded.leads(task)) continue;
      for (std::int64_t begin = 0, end; begin < task.q_len; begin = end) {
        if (static_cast<std::int64_t>(split.chunks.size()) == 2 * threads) return split.chunks.clear();
        end = block.blocks.end_of(begin, task.q_len);
        const KeyRange keys = keys_of_queries(task, begin, end);
        const std::int64_t first = keys.first / kChunkKeys;
        split_blocks.push_back({b, h, begin, end, (end - begin) * (folds ? folded.led_by(task) : 1), first});
        split.chunks.push_back(std::max<std::int64_t>(divide_up(keys.last, kChunkKeys) - first, 1));
      }
    }
  }
}

void AttentionSchedule::list_chosen_blocks(const std::vector<ChosenRow>& rows) {
  chosen_blocks.reserve(rows.size() + 1);
  const ChosenRow* first = nullptr;
  for (const ChosenRow& row : rows) {
    const bool is_near = first != nullptr && row.sequence == first->sequence && row.head == first->head &&
                         row.query < first->query + block.blocks.queries;
    if (is_near) continue;
    first = &row;
    chosen_blocks.push_back(first - rows.data());
  }
  chosen_blocks.push_back(static_cast<std::int64_t>(rows.size()));
}

AttentionSchedule::Queries AttentionSchedule::queries_of(std::int64_t task, std::int64_t q_len) const {
  const std::int64_t begin = task * task_queries, end = begin + task_queries, rest = block.blocks.rest;
  if (begin > 0 && begin + rest >= q_len) return {begin, begin};
  return {begin, end + rest >= q_len ? q_len : end};
}

int AttentionSchedule::busy_threads() const {
  int busy = 0;
  if (prefill) {
    const bool splits = split.wave(threads) > 0;
    busy = splits ? split.busy_threads(threads) : static_cast<int>(std::min<std::int64_t>(threads, tasks));
  }
  return std::max(busy, single_query.split.busy_threads(threads));
}

// One kind of work after the other.
std::size_t AttentionSchedule::pass_bytes(int with_threads) const {
  const auto chosen = std::max<std::int64_t>(static_cast<std::int64_t>(chosen_blocks.size()) - 1, 0);
  std::size_t most = times(std::min<std::int64_t>(with_threads, chosen), row_bytes);
  if (prefill) {
    most = std::max(most, split.wave(with_threads) > 0
                              ? split.workspace(with_threads)
                              : sum_sizes.bytes(with_threads) +
                                    times(std::min<std::int64_t>(with_threads, tasks), block.scratch_bytes));
  }
  most = std::max(most, single_query.split.workspace(with_threads));
  const std::size_t lists =
      (single_queries.size() + single_query.split.chunks.size() + chosen_blocks.capacity()) * sizeof(std::int64_t);
  return most + lists + times(with_threads, MemoryCount::kSmallBytes);
}

}  // namespace qkv::inline attending
