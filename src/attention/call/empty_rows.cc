// Finds the rows that see no key and makes their outputs NaN.
#include "attention/call/empty_rows.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/visit_dtype.h"
#include "qkv/threads.h"

namespace qkv::inline attending {
namespace {

void fill_with_nan(std::byte* row, Dtype type, std::int64_t count) {
  visit_dtype(type, [&]<class T>(T) {
    if constexpr (!std::is_integral_v<T>) {
      std::fill_n(reinterpret_cast<T*>(row), count, T(std::numeric_limits<float>::quiet_NaN()));
    }
  });
}

std::int64_t bytes_of(std::int64_t count, Dtype type) { return count * static_cast<std::int64_t>(size_of(type)); }

void fill_row(const OutputRows& rows, std::int64_t row, Dtype type, std::int64_t count) {
  fill_with_nan(rows.data + bytes_of(row * rows.step, type), type, count);
}

bool sees_nothing(const AttentionTask& task, Dtype accumulation, std::int64_t query) {
  const std::int64_t at = query * task.log_sum_exp.step;
  const auto is_lowest = [at]<class T>(const T* sums) { return sums[at] == -std::numeric_limits<T>::infinity(); };
  return accumulation == Dtype::f64 ? is_lowest(reinterpret_cast<const double*>(task.log_sum_exp.data))
                                    : is_lowest(reinterpret_cast<const float*>(task.log_sum_exp.data));
}

}  // namespace

void fill_empty_rows(const AttentionProblem& problem, int threads) {
  const Dtype wide = problem.accumulation;
  parallel_for(problem.batch * problem.heads, threads, [&](std::int64_t index, int) {
    const AttentionTask task = problem.task(index / problem.heads, index % problem.heads);
    for (std::int64_t i = 0; i < task.q_len; ++i) {
      if (!sees_nothing(task, wide, i)) continue;
      fill_row(task.out, i, task.common->out_type, task.common->value_dim);
      if (task.weights.data != nullptr) fill_row(task.weights, i, wide, task.k_len);
    }
  });
  for (const auto& [sequence, head, query, place] : problem.chosen_rows()) {
    const AttentionTask task = problem.task(sequence, head);
    if (sees_nothing(task, wide, query)) fill_row(task.row_weights, place, wide, task.k_len);
  }
}

}  // namespace qkv::inline attending
