// Decides blocks, threads and memory of a forward call.
#include "attention/forward/forward_schedule.h"

#include <algorithm>

#include "attention/call/attention_call.h"
#include "attention/call/view_checks.h"
#include "attention/tile/interval_masks.h"
#include "core/mathematics.h"
#include "qkv/threads.h"

namespace qkv::inline attending {
namespace {

constexpr std::int64_t kLeastTasks = 8;  // per thread, so that all end at about the same time

std::size_t times(std::int64_t count, std::size_t bytes) { return static_cast<std::size_t>(count) * bytes; }

// Whole chunks of keys that sequences see whose queries are so few that heads may share a block; on average.
std::int64_t chunks_of_few(const AttentionCall& call, const std::vector<std::int64_t>& prefills,
                           std::int64_t block_queries) {
  std::int64_t keys = 0, sequences = 0;
  for (const std::int64_t b : prefills) {
    const std::int64_t q_len = call.query_length(b);
    if (q_len < 2 || 2 * q_len > block_queries) continue;
    const KeyRange range = keys_of_queries(call.task(b, 0), 0, q_len);
    keys += range.last - range.first;
    ++sequences;
  }
  return sequences == 0 ? 1 : std::max<std::int64_t>(keys / sequences / kChunkKeys, 1);
}

}  // namespace

AttentionSchedule::AttentionSchedule(const AttentionCall& call, const AttentionExtras& extras)
    : empty(call.batch == 0 || call.heads == 0 || call.q_len == 0),
      sums(extras.received || extras.block_weights),
      statistics(std::ranges::any_of(
          attention_outputs(), [&](const OutputDescription& kind) { return kind.is_statistic && extras.*kind.view; })),
      allowed_threads(call.threads) {
  if (empty) return;
  threads = call.useful_threads(2);
  for (auto* list : {&single_queries, &prefills}) list->reserve(static_cast<std::size_t>(call.batch));
  for (std::int64_t b = 0; b < call.batch; ++b) {
    const bool is_single = call.is_single_query(b);
    if (is_single) single_queries.push_back(b);
    if (!is_single || statistics) prefills.push_back(b);
  }
  const AttentionTask longest = call.longest(call.q_len);
  block = plan_forward(longest);
  if (statistics && !single_queries.empty()) {  // which are exact
    block.scratch_bytes = std::max(block.scratch_bytes, plan_forward(call.longest(1)).scratch_bytes);
  }
  const std::int64_t all_heads = std::ssize(prefills) * call.heads;
  // A block of the next task could not follow the first ones of several.
  std::int64_t together = sums && threads > 1 ? 1 : block.blocks_together;
  if (sums) block.blocks.rest = 0;  // their segments are whole blocks
  const std::int64_t block_queries = block.blocks.queries;
  const auto tasks_of_head = [&] {
    return divide_up(std::max<std::int64_t>(call.q_len - block.blocks.rest, 1), together * block_queries);
  };
  while (together > 1 && all_heads * tasks_of_head() < kLeastTasks * threads) together /= 2;
  task_queries = together * block_queries;
  tasks_per_head = tasks_of_head();
  tasks = all_heads * tasks_per_head;
  if (sums) sum_sizes = WeightSumSizes(longest, all_heads);
  split.part_bytes = block.part_bytes;
  split.unit_bytes = sizeof(SplitBlock);
  may_split =
      !prefills.empty() && !statistics && !extras.weights && !extras.logits && threads > 1 && call.k_len > kChunkKeys;
  if (!prefills.empty() && !statistics) fold_heads(call, longest);
  block.scratch_bytes = std::max(block.scratch_bytes, folded.scratch_bytes());

  const std::size_t element = size_of(call.accumulation);
  single_query.group = call.heads / call.kv_heads;
  single_query.kernel = plan_single_query(longest, single_query.group);
  KeySplit& keys = single_query.split;
  keys.chunks.reserve(single_queries.size() * static_cast<std::size_t>(call.kv_heads));
  for (const std::int64_t b : single_queries) {
    const std::int64_t chunks = std::max<std::int64_t>(divide_up(call.key_length(b), kChunkKeys), 1);
    keys.chunks.insert(keys.chunks.end(), static_cast<std::size_t>(call.kv_heads), chunks);
  }
  keys.part_bytes = times(single_query.group * single_query.kernel.row_elements, element);
  keys.unit_bytes = times(single_query.group, sizeof(AttentionTask));
  keys.scratch_bytes = single_query.kernel.scratch_bytes;
  keys.whole_bytes = keys.scratch_bytes + 2 * keys.part_bytes;
  if (!call.chosen_rows().empty()) {
    list_chosen_blocks(call.chosen_rows());
    const SingleQueryPlan alone = plan_single_query(longest, 1);
    row_bytes = std::max(block.scratch_bytes, alone.scratch_bytes + times(2 * alone.row_elements, element));
  }

  memory = call.memory();
  const int within = memory.threads_within(threads, [&](int count) { return pass_bytes(count); });
  if (within < threads) allowed_threads = threads = within;
}

// Where keys can be split, heads need not stay apart to give work to all threads.
void AttentionSchedule::fold_heads(const AttentionCall& call, const AttentionTask& longest) {
  const auto fold = [&](std::int64_t for_threads) {
    folded = FoldedHeads(call, longest, block.blocks.queries, for_threads);
    split.scratch_bytes = std::max(block.scratch_bytes, folded.scratch_bytes());
  };
  const std::int64_t chunks = may_split ? chunks_of_few(call, prefills, block.blocks.queries) : 1;
  fold(divide_up(threads, chunks));
  if (may_split) list_split_blocks(call);
  if (chunks == 1 || split.wave(threads) > 0) return;
  fold(threads);
  split.chunks.clear();
}

// None if there are enough for all threads.
void AttentionSchedule::list_split_blocks(const AttentionCall& call) {
  for (const std::int64_t b : prefills) {
    for (std::int64_t h = 0; h < call.heads; ++h) {
      const AttentionTask task = call.task(b, h);
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
  if (!prefills.empty()) {
    const bool splits = split.wave(threads) > 0;
    busy = splits ? split.busy_threads(threads) : static_cast<int>(std::min<std::int64_t>(threads, tasks));
  }
  return std::max(busy, single_query.split.busy_threads(threads));
}

// One kind of work after the other.
std::size_t AttentionSchedule::pass_bytes(int with_threads) const {
  const auto chosen = std::max<std::int64_t>(static_cast<std::int64_t>(chosen_blocks.size()) - 1, 0);
  std::size_t most = times(std::min<std::int64_t>(with_threads, chosen), row_bytes);
  if (!prefills.empty()) {
    most = std::max(most, split.wave(with_threads) > 0
                              ? split.workspace(with_threads)
                              : sum_sizes.bytes(with_threads) +
                                    times(std::min<std::int64_t>(with_threads, tasks), block.scratch_bytes));
  }
  most = std::max(most, single_query.split.workspace(with_threads));
  const std::size_t lists =
      (single_queries.capacity() + prefills.capacity() + single_query.split.chunks.size() + chosen_blocks.capacity()) *
      sizeof(std::int64_t);
  return most + lists + times(with_threads, MemoryCount::kSmallBytes);
}

}  // namespace qkv::inline attending
