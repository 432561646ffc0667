// attention() whose output takes the place of the queries.
#pragma once

#include "qkv/attention.h"

namespace qkv::inline attending {

// q becomes attention(q, k, v, options): queries are read before their rows are written, whatever the schedule.
void attention_in_place(const MutableTensorView& q, const TensorView& k, const TensorView& v,
                        const AttentionOptions& options);

}  // namespace qkv::inline attending
