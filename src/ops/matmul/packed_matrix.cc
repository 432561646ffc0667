// Lays a matrix out in panels, the last one filled up with zeros.
#include <fmt/format.h>
#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "core/worth_waking.h"
#include "ops/matmul/block_panel.h"
#include "ops/matmul/int8_groups_panel.h"
#include "ops/matmul/int8_panel.h"
#include "ops/matmul/matmul_panel.h"
#include "ops/matmul/reduced_rows.h"
#include "qkv/matmul.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Rows that are laid out together where columns are not neighbours: a cache line of each column.
constexpr std::int64_t kStripRows = 16;
// What arrays of a matrix begin at multiples of.
constexpr std::size_t kArrayUnit = 64;
// Rows of a panel between two questions whether to stop.
constexpr std::int64_t kStopRows = 1 << 16;

// panel [rows][width] from columns of the matrix. No processor guesses the next of so many short stretches: each is
// fetched ahead, the next strip's where rows are, the next panel's where columns are. A prefetch never faults.
template <class T, class S>
void pack_panel(const TensorView& matrix, std::int64_t first_column, std::int64_t width, S* panel) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  const T* source = matrix.data<T>() + first_column * matrix.stride(1);
  const std::int64_t rows = matrix.size(0), row_step = matrix.stride(0), column_step = matrix.stride(1);
  const std::int64_t columns = std::min(width, matrix.size(1) - first_column);
  if (columns < width) std::fill_n(panel, rows * width, S(0));
  for (std::int64_t begin = 0; begin < rows; begin += kStripRows) {
    if (begin % kStopRows == 0) check_stop();
    const std::int64_t end = std::min(begin + kStripRows, rows);
    if (column_step == 1) {
      for (std::int64_t k = begin; k < end; ++k) {
        const T* row = source + k * row_step;
        for (std::int64_t c = 0; c < columns; c += kLine) hwy::Prefetch(row + kStripRows * row_step + c);
        for (std::int64_t c = 0; c < columns; ++c) panel[k * width + c] = static_cast<S>(row[c]);
      }
      continue;
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      const T* column = source + c * column_step;
      hwy::Prefetch(column + begin * row_step + width * column_step);
      for (std::int64_t k = begin; k < end; ++k) panel[k * width + c] = static_cast<S>(column[k * row_step]);
    }
  }
}

template <class T, class S = T>
void pack(const TensorView& matrix, int width, int threads, S* data) {
  const std::int64_t rows = matrix.size(0);
  const std::int64_t panels = divide_up(matrix.size(1), width);
  threads = worth_waking(threads, 0, static_cast<double>(panels * rows * width) * sizeof(T));
  parallel_for(panels, threads, [&](std::int64_t panel, int) {
    pack_panel<T, S>(matrix, panel * width, width, data + panel * rows * width);
  });
}

// Refuses what is not finite; `row` and `column` are its place in the matrix.
float finite_magnitude(float x, std::int64_t row, std::int64_t column) {
  const float magnitude = std::abs(x);
  if (!(magnitude <= std::numeric_limits<float>::max())) {
    refuse("PackedMatrix", "element [{}, {}] is {}; int8 needs finite numbers", row, column, x);
  }
  return magnitude;
}

// Column `column` as whole numbers, into every `width * group`-th group of `to`; its scale; returns their sum.
std::int32_t quantize_column(const TensorView& matrix, std::int64_t column, std::int64_t width, std::int64_t group,
                             std::int8_t* to, float* scale) {
  const float* source = matrix.data<float>() + column * matrix.stride(1);
  const std::int64_t rows = matrix.size(0), step = matrix.stride(0);
  float largest = 0;
  for (std::int64_t k = 0; k < rows; ++k) {  // at most kMaxInt8Depth
    largest = std::max(largest, finite_magnitude(source[k * step], k, column));
  }
  *scale = largest / 127;
  std::int32_t sum = 0;
  for (std::int64_t k = 0; k < rows; ++k) {
    const float whole = *scale > 0 ? std::nearbyint(source[k * step] / *scale) : 0.0f;
    const auto number = static_cast<std::int32_t>(std::clamp(whole, -127.0f, 127.0f));
    to[k / group * width * group + k % group] = static_cast<std::int8_t>(number);
    sum += number;
  }
  return sum;
}

// x / unit as a whole number up to kMostOfWeight. To the nearest, ties to even, as std::nearbyint, but in vectors: the
// sum is of a size whose last bit is 1.
float whole_weight(float x, float inverse) {
  constexpr float kOnes = 12582912.0f, kMost = kMostOfWeight;  // 1.5 * 2^23
  return std::min(std::max((x * inverse + kOnes) - kOnes, -kMost), kMost);
}

// Of some units near max|x| / kMostOfWeight that with which numbers err least, in the sum of squares: a seventh less
// than always with that one.
float best_unit(const float (&x)[kGroupDepth], float largest) {
  constexpr int kUnits = 8;
  float best = 0, least = std::numeric_limits<float>::infinity();
  for (int i = 0; i < kUnits; ++i) {
    const float unit = largest / (kMostOfWeight + 0.4f * static_cast<float>(1 - i));
    const float inverse = 1 / unit;
    float errors[8] = {};  // for the compiler's vectors
    for (std::int64_t k = 0; k < kGroupDepth; ++k) {
      const float error = x[k] - unit * whole_weight(x[k], inverse);
      errors[k % 8] += error * error;
    }
    const float error = std::accumulate(errors, errors + 8, 0.0f);
    if (error < least) best = unit, least = error;
  }
  return best;
}

// A group of column `column`, from row `first` on, as quantize_column().
std::int32_t quantize_group(const TensorView& matrix, std::int64_t first, std::int64_t column, std::int64_t width,
                            std::int64_t step, std::int8_t* to, float* scale) {
  float x[kGroupDepth] = {}, largest = 0;
  const std::int64_t rows = std::min(kGroupDepth, matrix.size(0) - first);
  const float* source = matrix.data<float>() + first * matrix.stride(0) + column * matrix.stride(1);
  for (std::int64_t k = 0; k < rows; ++k) {
    x[k] = source[k * matrix.stride(0)];
    largest = std::max(largest, finite_magnitude(x[k], first + k, column));
  }
  // Numbers whose squares or inverse a float cannot hold count as zeros, or have the plain unit.
  if (largest < 1e-15f) return 0;
  *scale = largest < 1e15f ? best_unit(x, largest) : largest / kMostOfWeight;
  std::int32_t sum = 0;
  for (std::int64_t k = 0; k < rows; ++k) {
    const auto number = static_cast<std::int32_t>(whole_weight(x[k], 1 / *scale));
    to[k / step * width * step + k % step] = static_cast<std::int8_t>(number);
    sum += number;
  }
  return sum;
}

// Numbers 2i and 2i + 1 of a block whose bytes hold one of its first 16 and one of its last ones.
std::uint8_t neighbours_of_halves(const std::uint8_t* bytes, std::int64_t i) {
  const std::uint8_t *pair = bytes + 2 * i % 16, shift = i < 8 ? 0 : 4;
  return static_cast<std::uint8_t>((pair[0] >> shift & 15) | (pair[1] >> shift & 15) << 4);
}

// Columns of a panel, some rows of each after those of another, so that lines stay; number(column, i): the element at
// index i of all panels.
template <class T, class Number>
void unpack_panel(const PackedMatrix& packed, std::int64_t first, const MutableTensorView& to, const Number& number) {
  const std::int64_t width = packed.panel_columns(), group = packed.panel_group(), rows = packed.rows();
  const std::int64_t panel_size = packed.panels().stride(0);
  for (std::int64_t begin = 0; begin < rows; begin += kStripRows) {
    if (begin % kStopRows == 0) check_stop();
    const std::int64_t end = std::min(begin + kStripRows, rows);
    for (std::int64_t c = 0; c < to.size(1); ++c) {
      const std::int64_t column = first + c;
      const std::int64_t panel = column / width * panel_size + column % width * group;
      T* next = to.data<T>() + begin * to.stride(0) + c * to.stride(1);
      for (std::int64_t k = begin; k < end; ++k, next += to.stride(0)) {
        *next = number(column, panel + k / group * width * group + k % group);
      }
    }
  }
}

// Where `array`, of which the arrays begin at `begin`, is filled.
template <class T>
T* filled(std::byte* begin, const TensorView& array) {
  return reinterpret_cast<T*>(begin + (array.bytes() - begin));
}

void check(const TensorView& matrix, WeightStorage storage) {
  if (matrix.rank() != 2) {
    refuse("PackedMatrix", "shape {}; it must be [k, n]", to_string(matrix.shape()));
  }
  const bool full = storage == WeightStorage::full;
  if (matrix.dtype() != Dtype::f32 && !(full && matrix.dtype() == Dtype::f64)) {
    refuse("PackedMatrix", "the type is {}; it must be f32{}", name_of(matrix.dtype()),
           full ? " or f64" : " to be kept in fewer bits");
  }
  if (block_bytes(storage) > 0) refuse("PackedMatrix", "numbers have no blocks; of_blocks() takes those of a file");
  const bool int8 = storage == WeightStorage::int8 || storage == WeightStorage::int8_groups;
  if (int8 && matrix.size(0) > kMaxInt8Depth) {
    refuse("PackedMatrix", "k is {}; int8 sums hold at most {}", matrix.size(0), kMaxInt8Depth);
  }
}

}  // namespace

PackedMatrix::PackedMatrix(std::int64_t rows, std::int64_t columns, Dtype dtype, WeightStorage storage)
    : rows_(rows), columns_(columns), dtype_(dtype), storage_(storage) {
  panel_columns_ = dtype == Dtype::f32 ? qkv::panel_columns<float>() : qkv::panel_columns<double>();
  if (is_reduced(storage)) {
    const ReducedForm form = reduced_form(storage);
    panel_columns_ = form.columns;
    panel_group_ = form.group;
  } else if (storage == WeightStorage::int8) {
    panel_group_ = int8_group();
  } else if (storage == WeightStorage::int8_groups) {
    panel_group_ = int8_groups_step();
  }
}

// The views, of bytes that may be nullptr; returns how many these are.
std::size_t PackedMatrix::lay_out(const std::byte* bytes) {
  const std::int64_t width = panel_columns_, group = panel_group_, panels = divide_up(columns_, width);
  std::size_t used = 0;
  const auto next = [&](Dtype dtype, const Dims& shape) {
    const TensorView view(bytes == nullptr ? nullptr : bytes + used, dtype, shape);
    used += divide_up(static_cast<std::size_t>(view.element_count()) * size_of(dtype), kArrayUnit) * kArrayUnit;
    return view;
  };
  if (storage_ == WeightStorage::full) {
    data_ = next(dtype_, {panels, rows_, width});
  } else if (storage_ == WeightStorage::bf16) {
    data_ = next(Dtype::bf16, {panels, rows_, width});
  } else if (is_reduced(storage_)) {
    const std::int64_t depth = group == 1 ? rows_ : reduced_form(storage_).depth(rows_);
    data_ = next(Dtype::bf16, {panels, depth / group, width, group});
  } else if (storage_ == WeightStorage::int8) {
    data_ = next(Dtype::i8, {panels, divide_up(rows_, group), width, group});
    column_scales_ = next(Dtype::f32, {columns_});
    column_sums_ = next(Dtype::i32, {columns_});
  } else if (storage_ == WeightStorage::int8_groups) {
    const std::int64_t groups = divide_up(rows_, kGroupDepth);
    data_ = next(Dtype::i8, {panels, groups * kGroupDepth / group, width, group});
    column_scales_ = next(Dtype::f32, {panels, groups, width});
    column_sums_ = next(Dtype::i32, {panels, groups, width});
  } else {
    const BlockKernel form = block_kernel(storage_);
    const std::int64_t count = rows_ / kBlockDepth;
    data_ = next(Dtype::u8, {panels, count * form.number_bytes, width});
    column_scales_ = next(Dtype::f16, {panels, count * form.scales, width});
  }
  return used;
}

// Memory of its own; without `zeros` the panels, of one array, are anything.
std::byte* PackedMatrix::allocate(bool zeros) {
  const auto count = static_cast<std::int64_t>(lay_out(nullptr));
  auto own =
      std::make_shared<Tensor>(zeros ? Tensor::zeros({count}, Dtype::u8) : Tensor::uninitialized({count}, Dtype::u8));
  std::byte* begin = own->view().bytes();
  bytes_ = {begin, static_cast<std::size_t>(count)};
  owner_ = std::move(own);
  if (!zeros && count > 0) std::fill_n(begin + count - kArrayUnit, kArrayUnit, std::byte{0});
  lay_out(begin);
  return begin;
}

PackedMatrix::PackedMatrix(const TensorView& matrix, int threads, WeightStorage storage) {
  check(matrix, storage);
  *this = PackedMatrix(matrix.size(0), matrix.size(1), matrix.dtype(), storage);
  if (storage == WeightStorage::bf16) {
    pack<float, BFloat16>(matrix, panel_columns_, threads, reinterpret_cast<BFloat16*>(allocate(false)));
  } else if (is_reduced(storage)) {
    pack_reduced(matrix, threads);
  } else if (storage == WeightStorage::int8) {
    pack_int8(matrix, threads);
  } else if (storage == WeightStorage::int8_groups) {
    pack_int8_groups(matrix, threads);
  } else if (dtype_ == Dtype::f32) {
    pack<float>(matrix, panel_columns_, threads, reinterpret_cast<float*>(allocate(false)));
  } else {
    pack<double>(matrix, panel_columns_, threads, reinterpret_cast<double*>(allocate(false)));
  }
}

PackedMatrix::PackedMatrix(std::int64_t rows, std::int64_t columns, WeightStorage storage,
                           std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
    : PackedMatrix(rows, columns, Dtype::f32, storage) {
  const std::size_t count = lay_out(bytes.data());
  if (bytes.size() != count || reinterpret_cast<std::uintptr_t>(bytes.data()) % kArrayUnit != 0) {
    refuse("PackedMatrix", "{} bytes; [{}, {}] takes {}, from a multiple of {} on", bytes.size(), rows, columns, count,
           kArrayUnit);
  }
  owner_ = std::move(owner);
  bytes_ = bytes;
}

PackedMatrix PackedMatrix::of_blocks(const TensorView& blocks, WeightStorage storage, int threads) {
  const std::int64_t bytes = block_bytes(storage);
  if (bytes == 0 || blocks.rank() != 2 || blocks.dtype() != Dtype::u8 || blocks.size(1) % bytes != 0 ||
      (blocks.size(1) > 1 && blocks.stride(1) != 1)) {
    refuse("PackedMatrix", "blocks are {} {}; they must be u8 [n, k / 32 * {}], of q8 or q4", name_of(blocks.dtype()),
           to_string(blocks.shape()), bytes);
  }
  PackedMatrix packed(blocks.size(1) / bytes * kBlockDepth, blocks.size(0), Dtype::f32, storage);
  packed.pack_blocks(blocks, threads);
  return packed;
}

void PackedMatrix::pack_blocks(const TensorView& blocks, int threads) {
  const BlockKernel form = block_kernel(storage_);
  const std::int64_t width = panel_columns_, group = form.group, panels = divide_up(columns_, width),
                     count = rows_ / kBlockDepth;
  std::byte* begin = allocate();
  auto* numbers = reinterpret_cast<std::uint8_t*>(begin);
  auto* scales = filled<Float16>(begin, column_scales_);
  threads = worth_waking(threads, 0, static_cast<double>(blocks.element_count()));
  parallel_for(panels, threads, [&](std::int64_t panel, int) {
    for (std::int64_t column = panel * width; column < std::min((panel + 1) * width, columns_); ++column) {
      check_stop();
      const std::uint8_t* from = blocks.data<std::uint8_t>() + column * blocks.stride(0);
      std::uint8_t* to = numbers + panel * count * form.number_bytes * width + column % width * group;
      Float16* scale = scales + panel * count * form.scales * width + column % width;
      for (std::int64_t block = 0; block < count; ++block) {
        for (std::int64_t i = 0; i < form.scales; ++i, scale += width, from += sizeof scale->bits) {
          std::memcpy(&scale->bits, from, sizeof scale->bits);
        }
        for (std::int64_t i = 0; i < form.number_bytes; ++i) {
          to[i / group * width * group + i % group] =
              storage_ == WeightStorage::q8 ? from[i] : neighbours_of_halves(from, i);
        }
        to += form.number_bytes * width;
        from += form.number_bytes;
      }
    }
  });
}

void PackedMatrix::pack_reduced(const TensorView& matrix, int threads) {
  if (panel_group_ == 1) {
    pack<float, BFloat16>(matrix, panel_columns_, threads, reinterpret_cast<BFloat16*>(allocate(false)));
    return;
  }
  const ReducedForm form = reduced_form(storage_);
  const std::int64_t width = panel_columns_, depth = form.depth(rows_);
  auto* data = reinterpret_cast<BFloat16*>(allocate());
  threads = worth_waking(threads, 0, static_cast<double>(matrix.element_count()) * sizeof(float));
  parallel_for(divide_up(columns_, width), threads, [&](std::int64_t panel, int) {
    const std::int64_t column = panel * width;
    for (std::int64_t k = 0; k < rows_; k += kStopRows) {
      check_stop();
      form.pack_strip({.from = matrix.data<float>() + k * matrix.stride(0) + column * matrix.stride(1),
                       .row_step = matrix.stride(0),
                       .column_step = matrix.stride(1),
                       .rows = std::min(kStopRows, rows_ - k),
                       .columns = std::min(width, columns_ - column),
                       .to = data + panel * depth * width + k * width,
                       .width = width});
    }
  });
}

void PackedMatrix::pack_int8(const TensorView& matrix, int threads) {
  const std::int64_t width = panel_columns_, group = panel_group_, groups = divide_up(rows_, group);
  const std::int64_t panels = divide_up(columns_, width);
  std::byte* begin = allocate();
  auto* data = reinterpret_cast<std::int8_t*>(begin);
  auto* scales = filled<float>(begin, column_scales_);
  auto* sums = filled<std::int32_t>(begin, column_sums_);
  threads = worth_waking(threads, 0, static_cast<double>(matrix.element_count()) * sizeof(float));
  parallel_for(panels, threads, [&](std::int64_t panel, int) {
    const std::int64_t first = panel * width, last = std::min(first + width, columns_);
    std::int8_t* to = data + panel * groups * width * group;
    for (std::int64_t column = first; column < last; ++column, to += group) {
      check_stop();
      sums[column] = quantize_column(matrix, column, width, group, to, scales + column);
    }
  });
}

void PackedMatrix::pack_int8_groups(const TensorView& matrix, int threads) {
  const std::int64_t width = panel_columns_, step = panel_group_, groups = divide_up(rows_, kGroupDepth);
  const std::int64_t panels = divide_up(columns_, width);
  std::byte* begin = allocate();
  auto* data = reinterpret_cast<std::int8_t*>(begin);
  auto* scales = filled<float>(begin, column_scales_);
  auto* sums = filled<std::int32_t>(begin, column_sums_);
  threads = worth_waking(threads, 0, static_cast<double>(matrix.element_count()) * sizeof(float));
  parallel_for(panels * groups, threads, [&](std::int64_t task, int) {
    check_stop();
    const std::int64_t panel = task / groups, row = task % groups * kGroupDepth;
    const std::int64_t first = panel * width, count = std::min(width, columns_ - first);
    for (std::int64_t c = 0; c < count; ++c) {
      sums[task * width + c] = quantize_group(matrix, row, first + c, width, step,
                                              data + task * kGroupDepth * width + c * step, scales + task * width + c);
    }
  });
}

void PackedMatrix::unpack_blocks(const MutableTensorView& to, std::int64_t column) const {
  const BlockKernel form = block_kernel(storage_);
  const BlockPanel first = first_panel(*this);
  const std::int64_t width = panel_columns_, c = column % width;
  float* next = to.data<float>();
  for (std::int64_t k = 0; k < rows_; ++k, next += to.stride(0)) {
    if (k % kStopRows == 0) check_stop();
    const BlockPanel block = form.at(first, rows_, width, column / width, k);
    const std::int64_t row = k % kBlockDepth;
    const float scale = static_cast<float>(block.scales[c]);
    if (storage_ == WeightStorage::q8) {
      *next = scale * static_cast<float>(static_cast<std::int8_t>(block.numbers[row * width + c]));
    } else {
      const int number = block.numbers[(row / 8 * width + c) * 4 + row % 8 / 2] >> row % 2 * 4 & 15;
      *next = scale * static_cast<float>(number) + static_cast<float>(block.scales[width + c]);
    }
  }
}

void PackedMatrix::unpack(const MutableTensorView& columns, std::int64_t first, int threads) const {
  const bool fits = columns.rank() == 2 && columns.size(0) == rows_ && columns.dtype() == dtype_ && first >= 0 &&
                    first + columns.size(1) <= columns_;
  if (!fits) {
    refuse("PackedMatrix", "no columns from {} on as {} {}; it is {} [{}, {}]", first, name_of(columns.dtype()),
           to_string(columns.shape()), name_of(dtype_), rows_, columns_);
  }
  threads = worth_waking(threads, 0, static_cast<double>(columns.element_count()) * sizeof(float));
  parallel_for(divide_up(columns.size(1), panel_columns_), threads, [&](std::int64_t task, int) {
    const std::int64_t begin = task * panel_columns_, end = std::min(begin + panel_columns_, columns.size(1));
    const MutableTensorView to = columns.slice(1, begin, end);
    const auto copy = [&]<class T, class S>(T, const S* numbers) {
      unpack_panel<T>(*this, first + begin, to,
                      [&](std::int64_t, std::int64_t i) { return static_cast<T>(numbers[i]); });
    };
    if (block_bytes(storage_) > 0) {
      for (std::int64_t c = 0; c < to.size(1); ++c) unpack_blocks(to.select(1, c), first + begin + c);
    } else if (storage_ == WeightStorage::int8 || storage_ == WeightStorage::int8_groups) {
      const std::int8_t* numbers = data_.data<std::int8_t>();
      const float* scales = column_scales_.data<float>();
      const bool groups = storage_ == WeightStorage::int8_groups;
      unpack_panel<float>(*this, first + begin, to, [&](std::int64_t column, std::int64_t i) {
        const std::int64_t scale =
            groups ? i / (kGroupDepth * panel_columns_) * panel_columns_ + column % panel_columns_ : column;
        return scales[scale] * static_cast<float>(numbers[i]);
      });
    } else if (storage_ == WeightStorage::bf16 || is_reduced(storage_)) {
      copy(0.0f, data_.data<BFloat16>());
    } else if (dtype_ == Dtype::f32) {
      copy(0.0f, data_.data<float>());
    } else {
      copy(0.0, data_.data<double>());
    }
  });
}

}  // namespace qkv
