// Computes positions and sinusoids.
#include "qkv/layers/positions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "core/visit_dtype.h"
#include "layers/basic/layer_checks.h"
#include "qkv/threads.h"

namespace qkv {

std::vector<std::int32_t> positions_of(const TensorView& offsets, std::int64_t most) {
  if (!offsets || offsets.dtype() != Dtype::i32 || offsets.rank() != 1 || offsets.size(0) < 1) {
    refuse("positions", "offsets must be i32 [batch + 1]");
  }
  std::vector<std::int32_t> positions;
  for (std::int64_t b = 0; b + 1 < offsets.size(0); ++b) {
    const std::int64_t length = std::int64_t{offsets.at<std::int32_t>({b + 1})} - offsets.at<std::int32_t>({b});
    if (length < 0 || length > most) {
      refuse("positions", "sequence {} has {} rows; there are positions for 0 to {}", b, length, most);
    }
    for (std::int32_t i = 0; i < length; ++i) positions.push_back(i);
  }
  return positions;
}

Tensor sinusoids(std::int64_t count, std::int64_t dim, SinusoidOrder order, Dtype dtype) {
  check_size("sinusoids", "count", count);
  check_size("sinusoids", "dim", dim);
  Tensor table = Tensor::uninitialized({count, dim}, Dtype::f64);
  const std::int64_t sines = (dim + 1) / 2;
  for (std::int64_t p = 0; p < count; ++p) {
    check_stop();
    double* row = table.data<double>() + p * dim;
    for (std::int64_t i = 0; i < sines; ++i) {
      const double angle = static_cast<double>(p) / pow(10000.0, static_cast<double>(2 * i) / static_cast<double>(dim));
      const std::int64_t cosine = order == SinusoidOrder::in_turns ? 2 * i + 1 : sines + i;
      row[order == SinusoidOrder::in_turns ? 2 * i : i] = sin(angle);
      if (cosine < dim) row[cosine] = cos(angle);
    }
  }
  return convert(table, dtype);
}

void add_positions(const TensorView& table, std::span<const std::int32_t> positions, Tensor& x) {
  const std::int64_t rows = static_cast<std::int64_t>(positions.size());
  if (table.rank() != 2 || !table.is_row_major() || x.shape() != Dims{rows, table.size(1)} ||
      x.dtype() != table.dtype()) {
    refuse("add_positions", "{} rows {} need a table {} [count, dim] of their width, not {}", name_of(x.dtype()),
           to_string(x.shape()), name_of(x.dtype()), to_string(table.shape()));
  }
  const auto run = [&]<class T>(T) {
    T* to = x.data<T>();
    StopTurns turns;
    for (const std::int32_t position : positions) {
      turns.next();
      if (position < 0 || position >= table.size(0)) {
        refuse("add_positions", "position {} is not in a table of {}", position, table.size(0));
      }
      const T* from = table.data<T>() + position * table.size(1);
      for (std::int64_t i = 0; i < table.size(1); ++i) *to++ += from[i];
    }
  };
  visit_f32_f64(x.dtype(), run);
}

}  // namespace qkv
