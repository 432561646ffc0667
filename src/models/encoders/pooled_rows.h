// One row for each sequence of a ragged batch, from its tokens' rows.
#pragma once

#include <string_view>

#include "qkv/models/sentence_encoder.h"
#include "qkv/tensor.h"

namespace qkv::inline models {

// rows [tokens, dim] -> [batch, dim]. std::invalid_argument, in the name of `of`, for a sequence without tokens.
Tensor pooled_rows(const TensorView& rows, const TensorView& offsets, SentencePooling pooling, std::string_view of);

// The gradient of the rows from that of what pooled_rows() gave.
Tensor pooled_rows_backward(const Tensor& grad, const TensorView& offsets, SentencePooling pooling);

}  // namespace qkv::inline models
