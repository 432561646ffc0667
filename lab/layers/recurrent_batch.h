// A batch as recurrent layers go through it: where each sequence lies, groups of sequences that take their steps
// together, states as they start, and dropout.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lab/layers/recurrent.h"
#include "layers/basic/rows.h"
#include "qkv/layers/sequences.h"

namespace qkv::inline layers {

class RecurrentBatch {
 public:
  // std::invalid_argument, beginning with `layer`, unless x is [batch, length, in], [length, in] or ragged rows with
  // their offsets.
  RecurrentBatch(std::string_view layer, const Sequences& x, std::int64_t in);

  const TensorView& rows() const { return rows_.view(); }  // [tokens, in]
  std::int64_t tokens() const { return rows_.count(); }
  std::int64_t size() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  std::int64_t begin(std::int64_t sequence) const { return begins_[static_cast<std::size_t>(sequence)]; }
  std::int64_t length(std::int64_t sequence) const { return begin(sequence + 1) - begin(sequence); }

  // All sequences, dealt out to at least `count` groups where there are so many, each from long to short.
  std::vector<std::vector<std::int64_t>> groups(std::int64_t count) const;

 private:
  std::vector<std::int64_t> begins_;  // and the end of the last one
  LayerRows rows_;
};

// States of all layers and directions, copied; zeros where they are not given. std::invalid_argument if their shape or
// type is wrong, or cells are given to what has none.
RecurrentStates<Tensor> copy_states(std::string_view layer, const RecurrentStates<TensorView>& states,
                                    const RecurrentConfig& config, std::int64_t batch, Dtype dtype);

// Dropout in place behind a layer. Every sequence has a seed of its own, so that its mask does not depend on the
// lengths of others.
void drop_steps(const Dropout& dropout, int layer, const RecurrentBatch& batch, const MutableTensorView& rows,
                int threads);

}  // namespace qkv::inline layers
