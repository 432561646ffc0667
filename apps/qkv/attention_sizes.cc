// Declares and completes the sizes of a call of attention.
#include "attention_sizes.h"

#include <fmt/format.h>

namespace qkv::app {

std::vector<Option> size_options(AttentionSizes& sizes) {
  return {
      {"--batch", size(sizes.batch), "sequences (default: 1)"},
      {"--heads", size(sizes.heads), "query heads (default: 1)"},
      {"--kv-heads", size(sizes.kv_heads), "key and value heads (default: --heads)"},
      {"--q-len", size(sizes.q_len), "queries of a sequence", required()},
      {"--k-len", size(sizes.k_len), "keys of a sequence", required()},
      {"--head-dim", size(sizes.head_dim, 1024), "size of a query and a key (default: 64)"},
      {"--value-dim", size(sizes.value_dim, 1024), "size of a value (default: --head-dim)"},
      causal_option(sizes.causal),
      dtype_option(sizes.dtype, {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}, "type of the arrays (default: f32)"),
      precision_option(sizes.precision),
      threads_option()};
}

void AttentionSizes::complete() {
  if (kv_heads == 0) kv_heads = heads;
  if (value_dim == 0) value_dim = head_dim;
  if (!dtype) dtype = Dtype::f32;
  if (heads % kv_heads != 0) throw UsageError("--kv-heads", fmt::format("{} must divide --heads {}", kv_heads, heads));
}

}  // namespace qkv::app
