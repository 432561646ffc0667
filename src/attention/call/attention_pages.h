// Checks of keys and values in pages, found by a block table; the kernels read them in place.
#pragma once

#include "attention/call/attention_inputs.h"

namespace qkv::inline attending {

// std::invalid_argument unless k and v are pages, and the table numbers of pages.
void check_pages(const TensorView& k, const TensorView& v, const TensorView& block_table);

// std::invalid_argument for a key of the inputs' sequences without a page. `k`: the pages.
void check_block_table(const AttentionInputs& inputs, const TensorView& k, const TensorView& block_table);

}  // namespace qkv::inline attending
