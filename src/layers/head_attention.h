// The middle of multi-head attention: from projected rows to merged heads.
#pragma once

#include "qkv/multi_head_attention.h"

namespace qkv {

struct HeadAttention {
  // Projected rows [n, heads * head_dim], row-major, and the inputs whose form (padded or ragged) they have.
  struct Rows {
    TensorView projected;
    Sequences form;
  };
  std::int64_t heads = 1;
  Rows query, key, value;
  TensorView extra_key, extra_value;  // [extra keys, heads, head_dim]: seen by every query, whatever the mask
};

// merged [n, heads * head_dim], row-major: the heads' outputs side by side.
void attend_heads(const HeadAttention& attention, const MutableTensorView& merged,
                  const MultiHeadAttentionOptions& options, Observer* observer);

}  // namespace qkv
