// Sums of weights in double, to which the blocks of queries add in order.
#include "attention/extras/weight_sums.h"

#include <algorithm>

#include "core/mathematics.h"

namespace qkv::inline attending {
namespace {

std::int64_t keys_of(const AttentionTask& task) { return task.received.data == nullptr ? 0 : task.k_len; }
std::int64_t parts_of(const AttentionTask& task) {
  return task.block_weights == nullptr ? 0 : task.common->block_rows * task.common->block_columns;
}

// A segment ends where a column of parts does: each part is in one.
std::int64_t columns_of(const AttentionTask& task) {
  return task.block_weights == nullptr ? task.k_len : task.common->block_columns;
}
std::int64_t segments_of(const AttentionTask& task) {
  constexpr std::int64_t kMostSegments = 64;
  const std::int64_t segments = std::min(divide_up(task.k_len, kBlockKeys), columns_of(task));
  return std::clamp<std::int64_t>(segments, 1, kMostSegments);
}
std::int64_t segment_of(const AttentionTask& task, std::int64_t key) {
  const std::int64_t columns = columns_of(task);
  return key * columns / task.k_len * segments_of(task) / columns;
}

// Elements i of n whose part i * parts / n is `part`.
std::int64_t size_of_part(std::int64_t part, std::int64_t parts, std::int64_t n) {
  return divide_up((part + 1) * n, parts) - divide_up(part * n, parts);
}

template <class T>
void write(const AttentionTask& task, const double* sums) {
  const std::int64_t keys = keys_of(task);
  for (std::int64_t j = 0; j < keys; ++j) {
    reinterpret_cast<T*>(task.received.data)[j * task.received.step] = static_cast<T>(sums[j]);
  }
  for (std::int64_t part = 0; part < parts_of(task); ++part) {
    const std::int64_t r = part / task.common->block_columns, c = part % task.common->block_columns;
    const std::int64_t pairs =
        size_of_part(r, task.common->block_rows, task.q_len) * size_of_part(c, task.common->block_columns, task.k_len);
    if (pairs == 0) continue;
    reinterpret_cast<T*>(task.block_weights)[r * task.common->block_step + c] =
        static_cast<T>(sums[keys + part] / static_cast<double>(pairs));
  }
}

}  // namespace

WeightSumSizes::WeightSumSizes(const AttentionTask& longest, std::int64_t all_heads)
    : heads(all_heads), numbers(keys_of(longest) + parts_of(longest)), segments(segments_of(longest)) {}

std::size_t WeightSumSizes::bytes(int threads) const {
  const std::int64_t at_once = std::min<std::int64_t>(heads, threads);
  return static_cast<std::size_t>(at_once * numbers + heads * (segments + 1)) * sizeof(double);
}

WeightSums::WeightSums(const WeightSumSizes& sizes, std::int64_t heads_of_sequence, int threads)
    : sizes_(sizes),
      heads_of_sequence_(heads_of_sequence),
      at_once_(std::min<std::int64_t>(sizes.heads, threads)),
      sums_(static_cast<std::size_t>(at_once_ * sizes.numbers)),
      order_(site_of(sizes.heads)) {}

AttentionTask WeightSums::begin(const AttentionTask& task, bool is_first) {
  double* memory = memory_of(task);
  const std::int64_t keys = keys_of(task);
  if (is_first) {
    const std::int64_t before = index_of(task) - at_once_;  // of the heads that have had this memory
    if (before >= 0) order_.wait_for(site_of(before) + sizes_.segments, 1);
    std::fill_n(memory, keys + parts_of(task), 0.0);
  }
  AttentionTask summed = task;
  summed.sums = this;
  if (task.received.data != nullptr) summed.received.data = reinterpret_cast<std::byte*>(memory);
  if (task.block_weights != nullptr) summed.block_weights = reinterpret_cast<std::byte*>(memory + keys);
  return summed;
}

void WeightSums::end(const AttentionTask& task) {
  const double* sums = memory_of(task);
  if (task.q_len > 0) task.visit_accumulation([&]<class T>(T) { write<T>(task, sums); });
  order_.finish(site_of(index_of(task)) + sizes_.segments);
}

void SumTurn::wait_up_to(std::int64_t segment) {
  const std::int64_t site = task_.sums->site_of(task_.sums->index_of(task_));
  for (; reached_ <= segment; ++reached_) task_.sums->order_.wait_for(site + reached_, block_);
}

void SumTurn::leave_up_to(std::int64_t segment) {
  const std::int64_t site = task_.sums->site_of(task_.sums->index_of(task_));
  for (; left_ < segment; ++left_) task_.sums->order_.finish(site + left_);
}

void SumTurn::reach(std::int64_t first, std::int64_t last) {
  wait_up_to(segment_of(task_, last - 1));
  leave_up_to(segment_of(task_, first));
}

void SumTurn::finish() {
  wait_up_to(segments_of(task_) - 1);
  leave_up_to(segments_of(task_));
}

}  // namespace qkv::inline attending
