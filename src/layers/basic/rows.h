// Layers that treat every position alike see their input [..., size] as rows [n, size]. And other work on rows, dropout
// among it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/mathematics.h"
#include "qkv/attention/dropout.h"
#include "qkv/layers/row_blocks.h"
#include "qkv/tensor.h"
#include "qkv/threads.h"

namespace qkv::inline layers {

class LayerRows {
 public:
  // Without a copy where the strides allow it. std::invalid_argument unless x is [..., size].
  LayerRows(std::string_view layer, const TensorView& x, std::int64_t size);

  const TensorView& view() const { return view_; }  // [n, size], last stride 1
  std::int64_t count() const { return view_.size(0); }

 private:
  Tensor copy_;
  TensorView view_;
};

// An output [..., size], row-major or [n, size], as rows [n, size]. std::invalid_argument, naming it, if it
// has another shape than `wanted`.
MutableTensorView output_rows(std::string_view layer, std::string_view name, const MutableTensorView& output,
                              const Dims& wanted);

// The shape with another last extent.
Dims with_last(Dims shape, std::int64_t size);

// body(begin, end) for blocks of at most `most` rows, which the threads share out evenly; of a single one what the body
// calls is shared out.
template <class Body>
void for_each_row_block(std::int64_t rows, std::int64_t most, int threads, const Body& body) {
  constexpr std::int64_t kUnit = 8;  // rows of a product's tile
  std::int64_t blocks = divide_up(rows, most);
  if (const std::int64_t workers = threads > 0 ? threads : qkv::threads(); blocks > 1) {
    blocks = divide_up(blocks, workers) * workers;
  }
  const std::int64_t size = blocks == 0 ? 1 : divide_up(divide_up(rows, blocks), kUnit) * kUnit;
  parallel_for(divide_up(rows, size), threads,
               [&](std::int64_t block, int) { body(block * size, std::min((block + 1) * size, rows)); });
}

// The input of a sublayer, which `storage` holds if need be.
TensorView normed(const NormedRows& input, Tensor& storage, int threads);

// The same as rows [n, dim], block by block.
class NormedBlocks {
 public:
  // std::invalid_argument unless the rows are [..., dim].
  NormedBlocks(std::string_view layer, const NormedRows& input, std::int64_t dim)
      : rows_(layer, input.rows, dim), norm_(input.norm) {}

  std::int64_t count() const { return rows_.count(); }
  // Rows begin <= i < end, which `storage` holds if need be.
  TensorView block(std::int64_t begin, std::int64_t end, Tensor& storage, int threads) const;

 private:
  LayerRows rows_;
  const LayerNorm* norm_;
};

// to += from, of the same shape and type.
void add_to(Tensor& to, const TensorView& from, int threads);
// The same of row-major views.
void add_to(const MutableTensorView& to, const TensorView& from, int threads);

// rows *= factor.
void scale_rows(Tensor& rows, double factor);

// One below the other: tensors of at least one dimension that agree in all but the first, and in type.
Tensor stack_rows(std::vector<Tensor> parts);

// How many rows of logits [n, classes], f32 or f64, are largest at their label; labels below 0 do not count.
double count_right(const TensorView& logits, std::span<const std::int32_t> labels);

// Dropout between layers: which elements are kept follows from the seed and the index of the element, so that backward
// finds the same mask and nothing is stored. Of the sites of it in one layer or model, number `site`: a seed of its
// own.
Dropout dropout_at(const Dropout& dropout, std::uint32_t site);

// out = x / rate where the element is kept, else 0; x and out [n, size] may be the same. The first row of x has the
// number `first_row`. Copies if dropout is off and they are not the same.
void drop(const Dropout& dropout, const TensorView& x, const MutableTensorView& out, int threads,
          std::int64_t first_row = 0);

}  // namespace qkv::inline layers
