// The cut of a product into tasks of some rows times some panels, and what is refused before.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/mathematics.h"
#include "core/worth_waking.h"
#include "ops/matmul/matmul_panel.h"
#include "qkv/matmul.h"
#include "qkv/tensor.h"
#include "qkv/threads.h"

namespace qkv::inline ops {

// Rows of a task: at the depths of Transformers they stay in L2 while panel after panel passes by.
inline constexpr std::int64_t kTaskRows = 256;
// Multiply-adds of a task, about, or bytes of the right operand, which take few rows longer than their products: a
// microsecond or more, the price of handing it to a thread that is awake.
inline constexpr std::int64_t kTaskWork = 1'000'000, kTaskBytes = 64 << 10;
// Rows that fewer count as where threads are woken: they take as long, because the right operand is fetched and
// widened.
inline constexpr std::int64_t kLeastRows = 4;

// Of a matrix that was packed for another target.
void check_panels(const PackedMatrix& b, int columns, int group);

// Columns begin <= c < end of the right operand.
struct Columns {
  explicit Columns(const PackedMatrix& b) : end(b.columns()) {}
  Columns(std::int64_t first, std::int64_t last) : begin(first), end(last) {}
  std::int64_t count() const { return end - begin; }

  std::int64_t begin = 0, end;
};

// Calls product(row, rows, panel, worker) for every block of rows and every panel that has some of the columns, some of
// them a task, at least so many panels.
template <class Product>
void for_each_panel(std::int64_t m, const PackedMatrix& b, Columns columns, std::int64_t task_rows, int threads,
                    Product&& product, std::int64_t least_panels = 1) {
  const std::int64_t width = b.panel_columns(), first_panel = columns.begin / width,
                     panel_count = divide_up(columns.end, width) - first_panel;
  const std::int64_t row_blocks = divide_up(m, task_rows);
  const std::int64_t panel_work = std::max<std::int64_t>(1, std::min(m, task_rows) * b.rows() * width);
  const auto panel_bytes =
      std::max<std::int64_t>(1, b.rows() * width * static_cast<std::int64_t>(size_of(b.panels().dtype())));
  const std::int64_t most =
      std::min(std::max(std::min(kTaskWork / panel_work, kTaskBytes / panel_bytes), least_panels), panel_count);
  const std::int64_t group = divide_up(panel_count, divide_up(panel_count, most)),  // tasks of one size
      groups = divide_up(panel_count, group);
  const auto elements = static_cast<double>(panel_count * b.rows() * width);
  threads = worth_sharing(threads, elements * static_cast<double>(std::max(m, kLeastRows)),
                          static_cast<double>(row_blocks * panel_count * panel_bytes));
  // Threads that keep step read memory each in order: every one has a stretch of its own of a block's tasks.
  const std::int64_t stretch = groups / threads, longer = groups % threads;
  parallel_for(row_blocks * groups, threads, [&](std::int64_t task, int worker) {
    const std::int64_t row = task / groups * task_rows, own = task % groups % threads;
    const std::int64_t first = (own * stretch + std::min(own, longer) + task % groups / threads) * group;
    for (std::int64_t panel = first; panel < std::min(first + group, panel_count); ++panel) {
      product(row, std::min(task_rows, m - row), first_panel + panel, worker);
    }
  });
}

inline int workers(int threads) { return threads > 0 ? threads : qkv::threads(); }

// Room for each worker to widen panels in fewer bits, if there are rows enough.
class WideRoom {
 public:
  static constexpr std::int64_t kLeast = 16;  // rows of bf16

  WideRoom(std::int64_t rows, std::int64_t panel_columns, int threads, std::int64_t least = kLeast)
      : size_(kWideDepth * panel_columns) {
    if (rows >= least) room_ = Tensor::uninitialized({workers(threads), size_});
  }
  float* of(int worker) { return room_.element_count() == 0 ? nullptr : room_.data<float>() + worker * size_; }

 private:
  std::int64_t size_;
  Tensor room_;
};

}  // namespace qkv::inline ops
