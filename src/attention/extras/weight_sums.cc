// Adds up weights per key and per block of the matrix, in double.
#include "attention/extras/weight_sums.h"

#include <algorithm>

#include "core/divide_up.h"

namespace qkv::inline attending {
namespace {

std::int64_t keys_of(const AttentionTask& task) { return task.received.data == nullptr ? 0 : task.k_len; }
std::int64_t parts_of(const AttentionTask& task) {
  return task.block_weights == nullptr ? 0 : task.common->block_rows * task.common->block_columns;
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

AttentionTask with_sums(AttentionTask task, std::byte* memory) {
  const std::int64_t keys = keys_of(task), parts = parts_of(task);
  std::fill_n(reinterpret_cast<double*>(memory), keys + parts, 0.0);
  if (task.received.data != nullptr) task.received.data = memory;
  if (task.block_weights != nullptr) task.block_weights = memory + static_cast<std::size_t>(keys) * sizeof(double);
  return task;
}

void write_sums(const AttentionTask& task, const std::byte* memory) {
  const auto* sums = reinterpret_cast<const double*>(memory);
  task.visit_accumulation([&]<class T>(T) { write<T>(task, sums); });
}

}  // namespace qkv::inline attending
