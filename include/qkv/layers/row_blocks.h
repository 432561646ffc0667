/// \file
/// How a sublayer inside a residual connection (residual.h) takes its input and gives its result: block of rows by
/// block of rows, so that neither is ever there as a whole.
#pragma once

#include <cstdint>
#include <functional>

#include "qkv/layers/layer_norm.h"
#include "qkv/tensor.h"

namespace qkv {

/// Rows [..., dim], each of which a norm goes over first, if there is one.
struct NormedRows {
  TensorView rows{};
  const LayerNorm* norm = nullptr;
};

/// Takes rows of the result, [count, dim] and row-major, which it may overwrite; they are the rows of [n, dim] from
/// `first` on. Called once per block, by several threads at a time, when of the input only the same rows are still
/// read.
using RowSink = std::function<void(std::int64_t first, const MutableTensorView& rows)>;

}  // namespace qkv
