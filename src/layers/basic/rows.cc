// Checks the rows that layers take, adds, stacks and drops rows, and computes the offsets of sequences.
#include "layers/basic/rows.h"

#include <algorithm>
#include <limits>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "core/visit_dtype.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/random.h"
#include "qkv/threads.h"

namespace qkv::inline layers {

LayerRows::LayerRows(std::string_view layer, const TensorView& x, std::int64_t size) {
  if (x.rank() == 0 || x.size(-1) != size) {
    refuse(layer, "the input is {}; it must be [..., {}]", to_string(x.shape()), size);
  }
  if (x.rank() == 2 && x.stride(1) == 1) {
    view_ = x;
    return;
  }
  if (!x.is_row_major()) copy_ = Tensor::copy(x);
  view_ = (x.is_row_major() ? x : copy_.view()).reshape({x.element_count() / size, size});
}

MutableTensorView output_rows(std::string_view layer, std::string_view name, const MutableTensorView& output,
                              const Dims& wanted) {
  if (output.shape() != wanted) {
    refuse(layer, "{} is {}; it must be {}", name, to_string(output.shape()), to_string(wanted));
  }
  if (output.rank() == 2 && output.stride(1) == 1) return output;
  return output.reshape({output.element_count() / output.size(-1), output.size(-1)});
}

Dims with_last(Dims shape, std::int64_t size) {
  shape[shape.size() - 1] = size;
  return shape;
}

TensorView normed(const NormedRows& input, Tensor& storage, int threads) {
  if (input.norm == nullptr) return input.rows;
  storage = input.norm->forward(input.rows, {}, threads);
  return storage;
}

TensorView NormedBlocks::block(std::int64_t begin, std::int64_t end, Tensor& storage, int threads) const {
  return normed({rows_.view().slice(0, begin, end), norm_}, storage, threads);
}

void add_to(Tensor& to, const TensorView& from, int threads) {
  if (!from.is_row_major()) return add_to(to, Tensor::copy(from), threads);
  add_to(to.view(), from, threads);
}

void add_to(const MutableTensorView& to, const TensorView& from, int threads) {
  constexpr std::int64_t kElementsOfATask = 1 << 16;
  const auto run = [&]<class T>(T) {
    T* sum = to.data<T>();
    const T* added = from.data<T>();
    const std::int64_t count = to.element_count();
    parallel_for(divide_up(count, kElementsOfATask), threads, [&](std::int64_t task, int) {
      const std::int64_t end = std::min((task + 1) * kElementsOfATask, count);
      for (std::int64_t i = task * kElementsOfATask; i < end; ++i) sum[i] += added[i];
    });
  };
  visit_f32_f64(to.dtype(), run);
}

Tensor stack_rows(std::vector<Tensor> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  Dims shape = parts.at(0).shape();
  shape[0] = 0;
  for (const Tensor& part : parts) shape[0] += part.size(0);
  Tensor all = Tensor::uninitialized(shape, parts[0].dtype());
  std::int64_t row = 0;
  for (const Tensor& part : parts) {
    convert(part, all.view().slice(0, row, row + part.size(0)));
    row += part.size(0);
  }
  return all;
}

void scale_rows(Tensor& rows, double factor) {
  const auto run = [&]<class T>(T) {
    T* data = rows.data<T>();
    const std::int64_t count = rows.element_count();
    for (std::int64_t begin = 0; begin < count; begin += kStopWork) {
      check_stop();
      const std::int64_t end = std::min(begin + kStopWork, count);
      for (std::int64_t i = begin; i < end; ++i) data[i] *= static_cast<T>(factor);
    }
  };
  visit_f32_f64(rows.dtype(), run);
}

double count_right(const TensorView& logits, std::span<const std::int32_t> labels) {
  double right = 0;
  visit_f32_f64(logits.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; i < std::ssize(labels); ++i) {
      const std::int32_t label = labels[static_cast<std::size_t>(i)];
      const T* row = logits.data<T>() + i * logits.stride(0);
      right += label >= 0 && std::max_element(row, row + logits.size(1)) - row == label;
    }
  });
  return right;
}

Dropout dropout_at(const Dropout& dropout, std::uint32_t site) {
  // The last number of the counter sets these blocks apart from those of masks, which count sequences there.
  const auto bits = philox({site, 0, 0, 0xFFFFFFFFu}, dropout.seed);
  return {.p = dropout.p, .seed = std::uint64_t{bits[1]} << 32 | bits[0]};
}

void drop(const Dropout& dropout, const TensorView& x, const MutableTensorView& out, int threads,
          std::int64_t first_row) {
  const DropoutRule rule(dropout);
  if (!rule.is_on()) {
    if (x.bytes() != out.bytes()) convert(x, out);
    return;
  }
  constexpr std::int64_t kElementsAtOnce = 1 << 14;
  const std::int64_t rows = x.size(0), step = std::max<std::int64_t>(1, kElementsAtOnce / x.size(1));
  const auto run = [&]<class T>(T) {
    parallel_for(divide_up(rows, step), threads, [&](std::int64_t task, int) {
      const std::int64_t begin = task * step;
      drop_rows({.rule = rule,
                 .x = x.data<T>() + begin * x.stride(0),
                 .x_stride = x.stride(0),
                 .out = out.data<T>() + begin * out.stride(0),
                 .out_stride = out.stride(0),
                 .first_row = first_row + begin,
                 .rows = std::min(step, rows - begin),
                 .size = x.size(1)});
    });
  };
  visit_f32_f64(x.dtype(), run);
}

}  // namespace qkv::inline layers

namespace qkv {

Tensor offsets_of(std::span<const std::int64_t> lengths) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  Tensor offsets = Tensor::zeros({static_cast<std::int64_t>(lengths.size()) + 1}, Dtype::i32);
  auto* end = offsets.data<std::int32_t>();
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > kMost - total) {
      refuse("sequences", "lengths must be 0 or more and add up to at most {}; one is {}", kMost, length);
    }
    total += length;
    *++end = static_cast<std::int32_t>(total);
  }
  return offsets;
}

}  // namespace qkv
