// A batch as recurrent layers go through it: where each sequence lies, and groups of sequences that take their steps
// together.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

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
  LayerRows rows_;
  std::vector<std::int64_t> begins_;  // and the end of the last one
};

}  // namespace qkv::inline layers
