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
#include "ops/matmul/panel_tasks.h"
#include "ops/matmul/reduced_product.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

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

template <class T, class S = T>
void multiply(const TensorView& a, const PackedMatrix& b, Columns columns, const MutableTensorView& out,
              const MatmulOptions& options) {
  const std::int64_t m = a.size(0), k = b.rows(), width = panel_columns<T>();
  check_panels(b, panel_columns<T>(), 1);
  if (m == 0 || columns.count() == 0) return;
  const MultiplyPanel<T, S> kernel = multiply_panel<T, S>();
  const T* left = a.data<T>();
  const S* panels = b.panels().data<S>();
  const T* bias = options.bias ? options.bias.data<T>() : nullptr;
  T* result = out.data<T>();
  for_each_panel(m, b, columns, kTaskRows, options.threads,
                 [&](std::int64_t row, std::int64_t rows, std::int64_t panel, int) {
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
                                                .accumulate = options.accumulate};
                   multiply_depths(kernel, own, width);
                 });
}

void multiply_full(const TensorView& a, const PackedMatrix& b, Columns columns, const MutableTensorView& out,
                   const MatmulOptions& options) {
  b.dtype() == Dtype::f32 ? multiply<float>(a, b, columns, out, options)
                          : multiply<double>(a, b, columns, out, options);
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
  check_panels(b, panel_columns<float>(), kernel.step);
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

// A block of the depth at a time: sums are those of the kernel for floats.
void multiply_blocks(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
                     const MatmulOptions& options) {
  const std::int64_t m = a.size(0), k = b.rows(), n = b.columns(), width = panel_columns<float>();
  check_panels(b, panel_columns<float>(), 1);
  if (m == 0 || n == 0) return;
  const BlockKernel kernel = block_kernel(b.storage());
  const BlockPanel first = first_panel(b);
  const float *left = a.data<float>(), *bias = options.bias ? options.bias.data<float>() : nullptr;
  float* result = out.data<float>();
  static_assert(kStretchDepth + kMostBlockRows <= kWideDepth);
  WideRoom room(m, width, options.threads, kernel.tile_rows + 1);
  for_each_panel(m, b, Columns(b), kMostBlockRows, options.threads,
                 [&](std::int64_t row, std::int64_t rows, std::int64_t panel, int worker) {
                   const std::int64_t column = panel * width;
                   std::int64_t begin = 0;
                   do {
                     if (begin % kStopDepth == 0) check_stop();
                     const std::int64_t count = std::min(kWideDepth, k - begin);
                     kernel.multiply({.left = left + row * a.stride(0) + begin,
                                      .left_stride = a.stride(0),
                                      .rows = rows,
                                      .panel = kernel.at(first, k, width, panel, begin),
                                      .depth = count,
                                      .out = result + row * out.stride(0) + column,
                                      .out_stride = out.stride(0),
                                      .columns = std::min(width, n - column),
                                      .bias = bias != nullptr && begin + count == k ? bias + column : nullptr,
                                      .accumulate = options.accumulate || begin > 0,
                                      .room = room.of(worker)});
                     begin += count;
                   } while (begin < k);
                 });
}

// Both operands lie in panels of the same width: one of a, read across, gives the rows of a task.
template <class T>
void multiply_transposed(const PackedMatrix& a, const PackedMatrix& b, const MutableTensorView& out,
                         const MatmulOptions& options) {
  const std::int64_t m = a.columns(), k = b.rows(), n = b.columns(), width = panel_columns<T>();
  check_panels(a, panel_columns<T>(), 1);
  check_panels(b, panel_columns<T>(), 1);
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
    matmul_reduced(a, b, out, options);
  } else if (b.storage() == WeightStorage::int8 || b.storage() == WeightStorage::int8_groups) {
    multiply_int8(a, b, out, options);
  } else if (block_bytes(b.storage()) > 0) {
    multiply_blocks(a, b, out, options);
  } else {
    multiply_full(a, b, Columns(b), out, options);
  }
}

inline namespace ops {

void check_panels(const PackedMatrix& b, int columns, int group) {
  if (b.panel_columns() == columns && b.panel_group() == group) return;
  refuse("matmul",
         "a matrix was packed in panels of {} columns, for another target; the selected one needs {}: pack it again",
         b.panel_columns() * b.panel_group(), columns * group);
}

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
  matmul_transposed_reduced(a, b, out, options);
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
    matmul_transposed_reduced(rows, b, out, options);
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
