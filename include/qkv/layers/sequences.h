/// \file
/// A batch of sequences as layers take it: padded, [batch, length, dim] or [length, dim] for a batch of one; or ragged,
/// rows [tokens, dim] and offsets. Ragged batches pass through every layer as they are; nothing is padded inside.
#pragma once

#include <cstdint>
#include <span>

#include "qkv/api.h"
#include "qkv/tensor.h"

namespace qkv {

struct Sequences {
  TensorView rows;
  TensorView offsets =
      {};  ///< i32 [batch + 1]: sequence b owns rows offsets[b] <= row < offsets[b + 1]; not given: padded

  Sequences(const TensorView& padded) : rows(padded) {}
  Sequences(const Tensor& padded) : rows(padded.view()) {}
  Sequences(const TensorView& ragged_rows, const TensorView& row_offsets) : rows(ragged_rows), offsets(row_offsets) {}

  bool ragged() const { return static_cast<bool>(offsets); }
};

/// [0, lengths[0], lengths[0] + lengths[1], ...] as i32. std::invalid_argument if a length is negative or the sum
/// exceeds 2^31 - 1.
QKV_API Tensor offsets_of(std::span<const std::int64_t> lengths);

}  // namespace qkv
