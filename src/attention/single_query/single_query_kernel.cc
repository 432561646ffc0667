// The kernel of a single query, compiled once per CPU target.
#include "attention/single_query/single_query_kernel.h"

#include "core/stop.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/single_query/single_query_kernel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "attention/single_query/single_query_chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, class S>
struct SingleQueryKernel {
  static constexpr std::int64_t kHeader = SingleQueryChunk<T, S>::header_vectors() * kLanes<T>;

  static std::int64_t row_elements(const AttentionTask& task) {
    return kHeader + whole_vectors<T>(task.common->value_dim);
  }

  static SingleQueryPlan plan(const AttentionTask& task, std::int64_t heads) {
    const SingleQueryScratch<T> sizes(task, heads);
    return {row_elements(task), static_cast<std::size_t>(sizes.total()) * sizeof(T)};
  }

  static void chunk(const AttentionTask* tasks, std::int64_t heads, std::int64_t first, const ScratchRoom& scratch,
                    std::byte* part) {
    SingleQueryChunk<T, S>(tasks, heads, first, scratch).run(reinterpret_cast<T*>(part), row_elements(tasks[0]));
  }

  static void merge(const AttentionTask* tasks, std::int64_t heads, std::byte* part, const std::byte* next) {
    for (std::int64_t h = 0; h < heads; ++h) {
      T* row = reinterpret_cast<T*>(part) + h * row_elements(tasks[0]);
      const T* other = reinterpret_cast<const T*>(next) + h * row_elements(tasks[0]);
      tasks[h].is_plain ? merge_rows<Unit::base2>(row, other, tasks[h].common->value_dim)
                        : merge_rows<Unit::natural>(row, other, tasks[h].common->value_dim);
    }
  }

  // A part without keys (sum 0) changes no bit.
  template <Unit kUnit>
  static void merge_rows(T* row, const T* other, std::int64_t value_dim) {
    const Tag<T> d;
    if (other[1] == 0) return;
    if (row[1] == 0) row[0] = other[0];
    const T maximum = std::max(row[0], other[0]);
    const Vec<T> factor = power<kUnit, T>(hn::Set(d, row[0] - maximum));
    const Vec<T> other_factor = power<kUnit, T>(hn::Set(d, other[0] - maximum));
    row[0] = maximum;
    row[1] = hn::GetLane(hn::MulAdd(hn::Set(d, other[1]), other_factor, hn::Mul(hn::Set(d, row[1]), factor)));
    for (std::int64_t e = kHeader; e < kHeader + value_dim; e += kLanes<T>) {
      const Vec<T> scaled = hn::Mul(hn::Load(d, row + e), factor);
      hn::Store(hn::MulAdd(hn::Load(d, other + e), other_factor, scaled), d, row + e);
    }
  }

  // A key with a weight and without a value.
  template <Unit kUnit>
  static void add_sink(const AttentionTask& task, T* row) {
    const Tag<T> d;
    const T sink = sink_of<kUnit, T>(task);
    if (row[1] == 0) row[0] = sink;
    const T maximum = std::max(row[0], sink);
    const Vec<T> factor = power<kUnit, T>(hn::Set(d, row[0] - maximum));
    const Vec<T> weight = power<kUnit, T>(hn::Set(d, sink - maximum));
    row[0] = maximum;
    row[1] = hn::GetLane(hn::MulAdd(hn::Set(d, row[1]), factor, weight));
    for (std::int64_t e = kHeader; e < kHeader + task.common->value_dim; e += kLanes<T>) {
      hn::Store(hn::Mul(hn::Load(d, row + e), factor), d, row + e);
    }
  }

  static void finish(const AttentionTask* tasks, std::int64_t heads, const ScratchRoom& scratch, std::byte* part) {
    for (std::int64_t h = 0; h < heads; ++h) {
      T* row = reinterpret_cast<T*>(part) + h * row_elements(tasks[0]);
      if (has_sink(tasks[h])) {
        tasks[h].is_plain ? add_sink<Unit::base2>(tasks[h], row) : add_sink<Unit::natural>(tasks[h], row);
      }
      const T inverse = row[1] == 0 ? T(0) : T(1) / row[1];
      if (tasks[h].out.data != nullptr) write_out(tasks[h], row + kHeader, inverse);
      if (tasks[h].log_sum_exp.data != nullptr) {
        *reinterpret_cast<T*>(tasks[h].log_sum_exp.data) = log_sum_exp(row[0], row[1], tasks[h].is_plain ? kLn2 : 1.0);
      }
    }
    if (tasks[0].weights.data != nullptr || tasks[0].logits.data != nullptr) write_planes(tasks, heads, scratch, part);
  }

  static void write_planes(const AttentionTask* tasks, std::int64_t heads, const ScratchRoom& scratch,
                           const std::byte* part) {
    for (std::int64_t chunk = 0; chunk < tasks[0].k_len; chunk += kChunkKeys) {
      check_stop();
      SingleQueryChunk<T, S>(tasks, heads, chunk, scratch)
          .write_planes(reinterpret_cast<const T*>(part), row_elements(tasks[0]));
    }
    for (std::int64_t h = 0; h < heads; ++h) {
      T* weights = reinterpret_cast<T*>(tasks[h].weights.data);
      T* logits = reinterpret_cast<T*>(tasks[h].logits.data);
      if (weights != nullptr) std::fill(weights + tasks[h].k_len, weights + tasks[h].common->row_length, T(0));
      if (logits != nullptr) std::fill(logits + tasks[h].k_len, logits + tasks[h].common->row_length, -kInfinity<T>);
    }
  }

  static void write_out(const AttentionTask& task, const T* out, T inverse) {
    const Tag<T> d;
    HWY_ALIGN T buffer[kLanes<T>];
    for (std::int64_t e = 0; e < task.common->value_dim; e += kLanes<T>) {
      const std::int64_t count = std::min<std::int64_t>(kLanes<T>, task.common->value_dim - e);
      // Adding 0 turns -0 into 0, as in the other computation.
      hn::Store(hn::MulAdd(hn::Load(d, out + e), hn::Set(d, inverse), hn::Zero(d)), d, buffer);
      if (sizeof(S) == sizeof(T) || task.common->out_type == dtype_of<T>) {
        std::copy(buffer, buffer + count, reinterpret_cast<T*>(task.out.data) + e);
      } else if constexpr (sizeof(S) != sizeof(T)) {
        round_row(buffer, count, reinterpret_cast<S*>(task.out.data) + e);
      }
    }
  }
};

// Runs `SingleQueryKernel<T, S>::name(arguments ...)` for the type of the keys.
#define QKV_DECODE(task, name, ...)                                 \
  switch ((task).key.type) {                                        \
    case Dtype::f64:                                                \
      return SingleQueryKernel<double, double>::name(__VA_ARGS__);  \
    case Dtype::bf16:                                               \
      return SingleQueryKernel<float, BFloat16>::name(__VA_ARGS__); \
    case Dtype::f16:                                                \
      return SingleQueryKernel<float, Float16>::name(__VA_ARGS__);  \
    default:                                                        \
      return SingleQueryKernel<float, float>::name(__VA_ARGS__);    \
  }

SingleQueryPlan plan(const AttentionTask& task, std::int64_t heads) { QKV_DECODE(task, plan, task, heads) }

void chunk(const AttentionTask* tasks, std::int64_t heads, std::int64_t first, const ScratchRoom& scratch,
           std::byte* part) {
  QKV_DECODE(*tasks, chunk, tasks, heads, first, scratch, part)
}

void merge(const AttentionTask* tasks, std::int64_t heads, std::byte* part, const std::byte* next) {
  QKV_DECODE(*tasks, merge, tasks, heads, part, next)
}

void finish(const AttentionTask* tasks, std::int64_t heads, const ScratchRoom& scratch, std::byte* part) {
  QKV_DECODE(*tasks, finish, tasks, heads, scratch, part)
}

#undef QKV_DECODE

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::inline attending {
namespace {

HWY_EXPORT(plan);
HWY_EXPORT(chunk);
HWY_EXPORT(merge);
HWY_EXPORT(finish);

}  // namespace

SingleQueryPlan plan_single_query(const AttentionTask& task, std::int64_t heads) {
  return HWY_DYNAMIC_DISPATCH(plan)(task, heads);
}

void attend_single_query(const AttentionTask* tasks, std::int64_t heads, std::int64_t first, const ScratchRoom& scratch,
                         std::byte* part) {
  HWY_DYNAMIC_DISPATCH(chunk)(tasks, heads, first, scratch, part);
}

void merge_single_queries(const AttentionTask* tasks, std::int64_t heads, std::byte* part, const std::byte* next) {
  HWY_DYNAMIC_DISPATCH(merge)(tasks, heads, part, next);
}

void finish_single_queries(const AttentionTask* tasks, std::int64_t heads, const ScratchRoom& scratch,
                           std::byte* part) {
  HWY_DYNAMIC_DISPATCH(finish)(tasks, heads, scratch, part);
}

}  // namespace qkv::inline attending
#endif  // HWY_ONCE
