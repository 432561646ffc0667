// matmul: the checks, and the cut into tasks of some rows times some panels.
#include "qkv/matmul.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "core/worth_waking.h"
#include "ops/matmul/block_panel.h"
#include "ops/matmul/int8_groups_panel.h"
#include "ops/matmul/int8_panel.h"
#include "ops/matmul/matmul_columns.h"
#include "ops/matmul/matmul_panel.h"
#include "ops/matmul/reduced_rows.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Rows of a task: at the depths of Transformers they stay in L2 while panel after panel passes by.
constexpr std::int64_t kTaskRows = 256;
// Multiply-adds of a task, about, or bytes of the right operand, which take few rows longer than their products: a
// microsecond or more, the price of handing it to a thread that is awake.
constexpr std::int64_t kTaskWork = 1'000'000, kTaskBytes = 64 << 10;
// Rows that fewer count as where threads are woken: they take as long, because the right operand is fetched and
// widened.
constexpr std::int64_t kLeastRows = 4;
// Depth of a product between two questions whether to stop: a task is then 6 * 10^6 multiply-adds of vectors. Whole
// blocks of the kernel's depth, so that sums have the same bits piece by piece.
constexpr std::int64_t kStopDepth = 8192;
constexpr int kPanelVectors = 3;  // of a panel's columns, on every target; a product may begin behind any of them

void check_type(const char* name, Dtype dtype, const PackedMatrix& b) {
  if (dtype != b.dtype()) {
    refuse("matmul", "{} is {}, b is {}; they must agree", name, name_of(dtype), name_of(b.dtype()));
  }
}

void check_unit(const char* name, std::int64_t extent, std::int64_t stride) {
  if (extent > 1 && stride != 1) refuse("matmul", "the last stride of {} is {}; it must be 1", name, stride);
}

void check_shape(const char* name, const TensorView& view, const Dims& shape) {
  if (view.shape() != shape) {
    refuse("matmul", "{} is {}; it must be {}", name, to_string(view.shape()), to_string(shape));
  }
}

void check_out(const MutableTensorView& out, const Dims& shape, const PackedMatrix& b) {
  check_shape("out", out, shape);
  check_type("out", out.dtype(), b);
  check_unit("out", out.size(1), out.stride(1));
  if (out.size(0) > 1 && std::abs(out.stride(0)) < out.size(1)) {
    refuse("matmul", "rows of out overlap: they are {} elements, {} apart", out.size(1), out.stride(0));
  }
}

void check_operands(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out, std::int64_t n,
                    const TensorView& bias) {
  const std::int64_t k = b.rows();
  if (a.rank() != 2 || a.size(1) != k) {
    refuse("matmul", "a is {}; with b [{}, {}] it must be [m, {}]", to_string(a.shape()), k, n, k);
  }
  check_type("a", a.dtype(), b);
  check_unit("a", k, a.stride(1));
  check_out(out, {a.size(0), n}, b);
  if (!bias) return;
  check_shape("bias", bias, {n});
  check_type("bias", bias.dtype(), b);
  check_unit("bias", n, bias.stride(0));
}

void check_target(const PackedMatrix& b, int columns, int group) {
  if (b.panel_columns() == columns && b.panel_group() == group) return;
  refuse("matmul",
         "a matrix was packed in panels of {} columns, for another target; the selected one needs {}: pack it again",
         b.panel_columns() * b.panel_group(), columns * group);
}

// One panel's product, depth by depth.
template <class T, class S>
void multiply_depths(MultiplyPanel<T, S> kernel, PanelProduct<T, S> product, std::int64_t panel_columns) {
  const T* bias = std::exchange(product.bias, nullptr);  // with the last piece
  std::int64_t left = product.depth;
  for (; left > kStopDepth; left -= kStopDepth) {
    product.depth = kStopDepth;
    kernel(product);
    check_stop();
    product.left += kStopDepth * product.left_step;
    product.panel += kStopDepth * panel_columns;
    product.accumulate = true;
  }
  product.depth = left;
  product.bias = bias;
  kernel(product);
}

// Columns begin <= c < end of the right operand.
struct Columns {
  explicit Columns(const PackedMatrix& b) : end(b.columns()) {}
  Columns(std::int64_t first, std::int64_t last) : begin(first), end(last) {}
  std::int64_t count() const { return end - begin; }

  std::int64_t begin = 0, end;
};

// Calls product(row, rows, panel, worker) for every block of rows and every panel that has some of the columns, some of
// them a task.
template <class Product>
void for_each_panel(std::int64_t m, const PackedMatrix& b, Columns columns, std::int64_t task_rows, int threads,
                    Product&& product) {
  const std::int64_t width = b.panel_columns(), first_panel = columns.begin / width,
                     panel_count = divide_up(columns.end, width) - first_panel;
  const std::int64_t row_blocks = divide_up(m, task_rows);
  const std::int64_t panel_work = std::max<std::int64_t>(1, std::min(m, task_rows) * b.rows() * width);
  const auto panel_bytes =
      std::max<std::int64_t>(1, b.rows() * width * static_cast<std::int64_t>(size_of(b.panels().dtype())));
  const std::int64_t most =
      std::clamp<std::int64_t>(std::min(kTaskWork / panel_work, kTaskBytes / panel_bytes), 1, panel_count);
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

int workers(int threads) { return threads > 0 ? threads : qkv::threads(); }

// Room for each worker to widen panels in fewer bits, if there are rows enough.
class WideRoom {
 public:
  static constexpr std::int64_t kLeast = 16;  // rows of bf16

  WideRoom(std::int64_t rows, std::int64_t panel_columns, int threads, std::int64_t least = kLeast)
      : size_(kWideDepth * panel_columns) {
    if (rows >= least) room_ = Tensor::uninitialized({workers(threads), size_});
  }
  float* of(int worker) { return size_of_room() == 0 ? nullptr : room_.data<float>() + worker * size_; }

 private:
  std::int64_t size_of_room() const { return room_.rank() == 0 ? 0 : room_.element_count(); }

  std::int64_t size_;
  Tensor room_;
};

template <class T, class S = T>
void multiply(const TensorView& a, const PackedMatrix& b, Columns columns, const MutableTensorView& out,
              const MatmulOptions& options) {
  const std::int64_t m = a.size(0), k = b.rows(), width = panel_columns<T>();
  check_target(b, panel_columns<T>(), 1);
  if (m == 0 || columns.count() == 0) return;
  const MultiplyPanel<T, S> kernel = multiply_panel<T, S>();
  const T* left = a.data<T>();
  const S* panels = b.panels().data<S>();
  const T* bias = options.bias ? options.bias.data<T>() : nullptr;
  T* result = out.data<T>();
  WideRoom wide(sizeof(S) < sizeof(T) ? m : 0, width, options.threads);
  for_each_panel(m, b, columns, kTaskRows, options.threads,
                 [&](std::int64_t row, std::int64_t rows, std::int64_t panel, int worker) {
                   const std::int64_t begin = std::max(panel * width, columns.begin);
                   const std::int64_t end = std::min((panel + 1) * width, columns.end), to = begin - columns.begin;
                   const PanelProduct<T, S> own{.left = left + row * a.stride(0),
                                                .left_stride = a.stride(0),
                                                .left_step = 1,
                                                .rows = rows,
                                                .panel = panels + panel * k * width + begin % width,
                                                .depth = k,
                                                .out = result + row * out.stride(0) + to,
                                                .out_stride = out.stride(0),
                                                .columns = end - begin,
                                                .bias = bias == nullptr ? nullptr : bias + to,
                                                .accumulate = options.accumulate,
                                                .wide = wide.of(worker)};
                   multiply_depths(kernel, own, width);
                 });
}

void multiply_full(const TensorView& a, const PackedMatrix& b, Columns columns, const MutableTensorView& out,
                   const MatmulOptions& options) {
  b.dtype() == Dtype::f32 ? multiply<float>(a, b, columns, out, options)
                          : multiply<double>(a, b, columns, out, options);
}

constexpr std::int64_t kRoundedRows = 32;  // of a task

// m rows, so many at a time that those of a thread stay in its cache, rounded: round(form, first, rows, to, threads).
template <class Round>
void multiply_reduced(std::int64_t m, const PackedMatrix& b, const MutableTensorView& out, const MatmulOptions& options,
                      const Round& round) {
  const std::int64_t k = b.rows(), n = b.columns(), width = b.panel_columns();
  const ReducedForm form = reduced_form(b.storage());
  check_target(b, form.columns, form.group);
  if (m == 0 || n == 0) return;
  const std::int64_t task_rows =
      std::clamp(kStopDepth / std::max<std::int64_t>(k, 1), std::int64_t{1}, kTaskRows / kRoundedRows) * kRoundedRows;
  const std::int64_t most = std::min(m, task_rows * workers(options.threads));
  const std::int64_t depth = form.depth(k), words = form.words(k);
  Tensor rounded = Tensor::uninitialized({form.rows(most), words});
  WideRoom wide(form.group == 1 ? std::min(most, task_rows) : 0, width, options.threads);
  const BFloat16* panels = b.panels().data<BFloat16>();
  const std::int64_t panel_size = b.panels().stride(0);
  for (std::int64_t begin = 0; begin < m; begin += most) {
    const std::int64_t present = std::min(most, m - begin);
    float* to = rounded.data<float>();
    round(form, begin, present, to,
          worth_sharing(options.threads, 0, static_cast<double>(present * k) * sizeof(float)));
    for_each_panel(present, b, Columns(b), task_rows, options.threads,
                   [&](std::int64_t row, std::int64_t rows, std::int64_t panel, int worker) {
                     const std::int64_t column = panel * width;
                     form.multiply({.left = to + row * words,
                                    .left_stride = words,
                                    .left_step = 1,
                                    .rows = rows,
                                    .panel = panels + panel * panel_size,
                                    .depth = depth,
                                    .out = out.data<float>() + (begin + row) * out.stride(0) + column,
                                    .out_stride = out.stride(0),
                                    .columns = std::min(width, n - column),
                                    .bias = options.bias ? options.bias.data<float>() + column : nullptr,
                                    .accumulate = options.accumulate,
                                    .wide = wide.of(worker)});
                   });
  }
}

void multiply_reduced(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
                      const MatmulOptions& options) {
  const std::int64_t k = b.rows(), step = a.stride(0);
  multiply_reduced(a.size(0), b, out, options,
                   [&](const ReducedForm& form, std::int64_t first, std::int64_t rows, float* to, int threads) {
                     parallel_for(divide_up(rows, kRoundedRows), threads, [&](std::int64_t task, int) {
                       check_stop();
                       const std::int64_t row = task * kRoundedRows;
                       form.round_rows({.from = a.data<float>() + (first + row) * step,
                                        .row_step = step,
                                        .rows = std::min(kRoundedRows, rows - row),
                                        .depth = k,
                                        .filled = form.depth(k),
                                        .to = to + row * form.words(k)});
                     });
                   });
}

// Of columns of a.
void multiply_transposed_reduced(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
                                 const MatmulOptions& options) {
  const std::int64_t k = b.rows(), step = a.stride(0);
  multiply_reduced(a.size(1), b, out, options,
                   [&](const ReducedForm& form, std::int64_t first, std::int64_t columns, float* to, int threads) {
                     parallel_for(divide_up(k, kTurnedRows), threads, [&](std::int64_t task, int) {
                       check_stop();
                       const std::int64_t begin = task * kTurnedRows;
                       form.round_columns({.from = a.data<float>() + begin * step + first,
                                           .row_step = step,
                                           .columns = columns,
                                           .begin = begin,
                                           .count = std::min(kTurnedRows, k - begin),
                                           .filled = form.depth(k),
                                           .to = to});
                     });
                   });
}

// Of a kernel for weights of 8 bits.
struct Int8Kernel {
  int step;                // of the panels
  std::int64_t groups;     // of the depth
  std::int64_t scales;     // of a row
  std::int64_t row_bytes;  // of a quantized row
  void (*quantize)(const float* x, std::int64_t depth, std::byte* quantized, float* scales);
  void (*multiply)(const Int8Product& product);
};

Int8Kernel int8_kernel(const PackedMatrix& b) {
  if (b.storage() == WeightStorage::int8) {
    return {int8_group(), 1, 1, quantized_bytes(b.rows()), quantize_row, multiply_int8_panel};
  }
  const std::int64_t groups = divide_up(b.rows(), kGroupDepth);
  return {int8_groups_step(),      groups,
          groups * kScalesOfGroup, quantized_groups_bytes(b.rows()),
          quantize_row_groups,     multiply_int8_groups_panel};
}

void multiply_int8(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
                   const MatmulOptions& options) {
  const std::int64_t m = a.size(0), k = b.rows(), n = b.columns(), width = panel_columns<float>();
  const Int8Kernel kernel = int8_kernel(b);
  check_target(b, panel_columns<float>(), kernel.step);
  if (m == 0 || n == 0) return;
  const std::int64_t stride = kernel.row_bytes, panel_bytes = b.panels().stride(0);
  Tensor storage = Tensor::uninitialized({m * stride / 4}), scales = Tensor::uninitialized({m, kernel.scales});
  auto* quantized = reinterpret_cast<std::byte*>(storage.data<float>());
  float* row_scales = scales.data<float>();
  const float* left = a.data<float>();
  parallel_for(divide_up(m, kTaskRows), options.threads, [&](std::int64_t block, int) {
    for (std::int64_t row = block * kTaskRows; row < std::min(m, (block + 1) * kTaskRows); ++row) {
      check_stop();
      kernel.quantize(left + row * a.stride(0), k, quantized + row * stride, row_scales + row * kernel.scales);
    }
  });
  const std::int8_t* panels = b.panels().data<std::int8_t>();
  const float* column_scales = b.column_scales().data<float>();
  const std::int32_t* column_sums = b.column_sums().data<std::int32_t>();
  const float* bias = options.bias ? options.bias.data<float>() : nullptr;
  float* result = out.data<float>();
  const std::int64_t task_rows = std::min(kTaskRows, kTaskRows * kStopDepth / std::max<std::int64_t>(k, 1));
  for_each_panel(m, b, Columns(b), task_rows, options.threads,
                 [&](std::int64_t row, std::int64_t rows, std::int64_t panel, int) {
                   const std::int64_t column = panel * width, scale = column * kernel.groups;
                   kernel.multiply({.left = quantized + row * stride,
                                    .left_stride = stride,
                                    .scales = row_scales + row * kernel.scales,
                                    .rows = rows,
                                    .panel = panels + panel * panel_bytes,
                                    .column_scales = column_scales + scale,
                                    .column_sums = column_sums + scale,
                                    .depth = k,
                                    .groups = kernel.groups,
                                    .out = result + row * out.stride(0) + column,
                                    .out_stride = out.stride(0),
                                    .columns = std::min(width, n - column),
                                    .bias = bias == nullptr ? nullptr : bias + column,
                                    .accumulate = options.accumulate});
                 });
}

// Few rows are multiplied by blocks as they are, more by what they are widened to, a block of the depth at a time:
// sums are those of the kernel for floats.
void multiply_blocks(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
                     const MatmulOptions& options) {
  const std::int64_t m = a.size(0), k = b.rows(), n = b.columns(), width = panel_columns<float>();
  check_target(b, panel_columns<float>(), 1);
  if (m == 0 || n == 0) return;
  const BlockKernel kernel = block_kernel(b.storage());
  const MultiplyPanel<float> multiply_wide = multiply_panel<float>();
  const BlockPanel first = first_panel(b);
  const float *left = a.data<float>(), *bias = options.bias ? options.bias.data<float>() : nullptr;
  float* result = out.data<float>();
  WideRoom wide(m, width, options.threads, kernel.most_rows + 1);
  for_each_panel(
      m, b, Columns(b), kTaskRows, options.threads,
      [&](std::int64_t row, std::int64_t rows, std::int64_t panel, int worker) {
        const std::int64_t column = panel * width;
        std::int64_t begin = 0;
        do {
          if (begin % kStopDepth == 0) check_stop();
          const std::int64_t count = std::min(kWideDepth, k - begin);
          const float* own = left + row * a.stride(0) + begin;
          float* to = result + row * out.stride(0) + column;
          const BlockPanel blocks = kernel.at(first, k, width, panel, begin);
          const std::int64_t columns = std::min(width, n - column);
          const bool accumulate = options.accumulate || begin > 0;
          begin += count;
          const float* last_bias = bias != nullptr && begin == k ? bias + column : nullptr;
          if (m <= kernel.most_rows) {
            kernel.multiply({own, a.stride(0), rows, blocks, count, to, out.stride(0), columns, last_bias, accumulate});
            continue;
          }
          kernel.widen(blocks, count, wide.of(worker));
          multiply_wide({.left = own,
                         .left_stride = a.stride(0),
                         .left_step = 1,
                         .rows = rows,
                         .panel = wide.of(worker),
                         .depth = count,
                         .out = to,
                         .out_stride = out.stride(0),
                         .columns = columns,
                         .bias = last_bias,
                         .accumulate = accumulate});
        } while (begin < k);
      });
}

// Both operands lie in panels of the same width: one of a, read across, gives the rows of a task.
template <class T>
void multiply_transposed(const PackedMatrix& a, const PackedMatrix& b, const MutableTensorView& out,
                         const MatmulOptions& options) {
  const std::int64_t m = a.columns(), k = b.rows(), n = b.columns(), width = panel_columns<T>();
  check_target(a, panel_columns<T>(), 1);
  check_target(b, panel_columns<T>(), 1);
  const MultiplyPanel<T> kernel = multiply_panel<T>();
  const T *left = a.panels().data<T>(), *right = b.panels().data<T>();
  T* result = out.data<T>();
  const std::int64_t left_panels = divide_up(m, width), right_panels = divide_up(n, width);
  // A panel of the larger operand stays while all of the smaller one, which the cache may hold, passes by.
  const bool left_stays = m > n;
  const auto elements = static_cast<double>(m * n);
  const int threads = worth_waking(options.threads, static_cast<double>(k) * elements, elements * sizeof(T));
  parallel_for(left_panels * right_panels, threads, [&](std::int64_t task, int) {
    const std::int64_t row = (left_stays ? task / right_panels : task % left_panels) * width;
    const std::int64_t column = (left_stays ? task % right_panels : task / left_panels) * width;
    const PanelProduct<T> own{.left = left + row * k,
                              .left_stride = 1,
                              .left_step = width,
                              .rows = std::min(width, m - row),
                              .panel = right + column * k,
                              .depth = k,
                              .out = result + row * out.stride(0) + column,
                              .out_stride = out.stride(0),
                              .columns = std::min(width, n - column),
                              .bias = nullptr,
                              .accumulate = options.accumulate};
    multiply_depths(kernel, own, width);
  });
}

}  // namespace

void matmul(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out, const MatmulOptions& options) {
  check_operands(a, b, out, b.columns(), options.bias);
  if (b.storage() == WeightStorage::bf16) {
    multiply<float, BFloat16>(a, b, Columns(b), out, options);
  } else if (is_reduced(b.storage())) {
    multiply_reduced(a, b, out, options);
  } else if (b.storage() == WeightStorage::int8 || b.storage() == WeightStorage::int8_groups) {
    multiply_int8(a, b, out, options);
  } else if (block_bytes(b.storage()) > 0) {
    multiply_blocks(a, b, out, options);
  } else {
    multiply_full(a, b, Columns(b), out, options);
  }
}

inline namespace ops {

std::int64_t column_step(const PackedMatrix& b) {
  return b.storage() == WeightStorage::full ? b.panel_columns() / kPanelVectors : b.columns();
}

void matmul_columns(const TensorView& a, const PackedMatrix& b, std::int64_t first, const MutableTensorView& out,
                    const MatmulOptions& options) {
  const Columns columns(first, first + out.size(-1));
  if (first == 0 && columns.end == b.columns()) return matmul(a, b, out, options);
  if (first % column_step(b) != 0 || columns.end > b.columns()) {
    refuse("matmul", "no product with columns {} to {} of {} alone", columns.begin, columns.end, b.columns());
  }
  check_operands(a, b, out, columns.count(), options.bias);
  multiply_full(a, b, columns, out, options);
}

void matmul_transposed_rows(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
                            const MatmulOptions& options) {
  if (!is_reduced(b.storage())) return matmul_transposed(PackedMatrix(a, options.threads), b, out, options);
  check_shape("a", a, {b.rows(), a.size(-1)});
  check_type("a", a.dtype(), b);
  check_unit("a", a.size(1), a.stride(1));
  check_out(out, {a.size(1), b.columns()}, b);
  multiply_transposed_reduced(a, b, out, options);
}

}  // namespace ops

void matmul_transposed(const PackedMatrix& a, const PackedMatrix& b, const MutableTensorView& out,
                       const MatmulOptions& options) {
  if (options.bias) refuse("matmul", "a transposed product takes no bias");
  if (a.rows() != b.rows() || a.dtype() != b.dtype()) {
    refuse("matmul", "a is {} [{}, {}] and b {} [{}, {}]; they must agree in type and rows", name_of(a.dtype()),
           a.rows(), a.columns(), name_of(b.dtype()), b.rows(), b.columns());
  }
  const bool reduced = is_reduced(b.storage());
  if (a.storage() != WeightStorage::full || !(reduced || b.storage() == WeightStorage::full)) {
    refuse("matmul", "a transposed product takes matrices in full storage, b also for reduced precision");
  }
  check_out(out, {a.columns(), b.columns()}, b);
  if (reduced) {
    Tensor rows = Tensor::uninitialized({a.rows(), a.columns()});
    a.unpack(rows, 0, options.threads);
    multiply_transposed_reduced(rows, b, out, options);
  } else if (b.dtype() == Dtype::f32) {
    multiply_transposed<float>(a, b, out, options);
  } else {
    multiply_transposed<double>(a, b, out, options);
  }
}

void matmul(const TensorView& a, const TensorView& b, const MutableTensorView& out, const MatmulOptions& options) {
  matmul(a, PackedMatrix(b, options.threads), out, options);
}

}  // namespace qkv
