// Checks of keys and values in pages.
#include "attention/call/attention_pages.h"

#include "attention/call/view_checks.h"

namespace qkv::inline attending {

void check_pages(const TensorView& k, const TensorView& v, const TensorView& block_table) {
  if (k.rank() != 4 || v.rank() != 4) {
    fail("paged key and value must be [pages, rows, kv_heads, size], got {} and {}", to_string(k.shape()),
         to_string(v.shape()));
  }
  for (int i = 0; i < 3; ++i) {
    if (k.size(i) != v.size(i)) {
      fail("paged key {} and value {} differ before the size", to_string(k.shape()), to_string(v.shape()));
    }
  }
  if (k.size(1) < 1 || k.size(1) > kMaxLength) {
    fail("pages must have 1 to {} rows, got key {}", kMaxLength, to_string(k.shape()));
  }
  if (block_table.dtype() != Dtype::i32 || block_table.rank() != 2) {
    fail("block_table must be i32 [batch, blocks], got {} {}", name_of(block_table.dtype()),
         to_string(block_table.shape()));
  }
  if (block_table.size(1) > kMaxLength / k.size(1)) {
    fail("{} blocks of {} keys exceed {}", block_table.size(1), k.size(1), kMaxLength);
  }
  require_unit_stride("block_table", block_table);
}

void check_block_table(const AttentionInputs& inputs, const TensorView& k, const TensorView& block_table) {
  if (block_table.size(0) != inputs.batch) {
    fail("block_table has {} rows for a batch of {}", block_table.size(0), inputs.batch);
  }
  const std::int64_t pages = k.size(0), rows = k.size(1);
  for (std::int64_t b = 0; b < inputs.batch; ++b) {
    const std::int32_t* page = block_table.data<std::int32_t>() + b * block_table.stride(0);
    for (std::int64_t block = 0; block * rows < inputs.key_length(b); ++block) {
      if (page[block] >= 0 && page[block] < pages) continue;
      fail("block_table[{}, {}] is {}; it must be 0 to {}, a page of key and value", b, block, page[block], pages - 1);
    }
  }
}

}  // namespace qkv::inline attending
