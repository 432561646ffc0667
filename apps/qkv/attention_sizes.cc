// Declares and completes the sizes of a call of attention.
#include "attention_sizes.h"

#include <fmt/format.h>

namespace qkv::app {

CLI::Option* add_size(CLI::App& command, const std::string& option, std::int64_t& size, const std::string& help,
                      std::int64_t largest) {
  return command.add_option(option, size, help)->check(whole_number(1, largest))->type_name("N");
}

void add_attention_sizes(CLI::App& command, AttentionSizes& sizes) {
  add_size(command, "--batch", sizes.batch, "sequences (default: 1)");
  add_size(command, "--heads", sizes.heads, "query heads (default: 1)");
  add_size(command, "--kv-heads", sizes.kv_heads, "key and value heads (default: --heads)");
  add_size(command, "--q-len", sizes.q_len, "queries of a sequence")->required();
  add_size(command, "--k-len", sizes.k_len, "keys of a sequence")->required();
  add_size(command, "--head-dim", sizes.head_dim, "size of a query and a key (default: 64)", 1024);
  add_size(command, "--value-dim", sizes.value_dim, "size of a value (default: --head-dim)", 1024);
  add_causal(command, sizes.causal);
  add_dtype(command, sizes.dtype, {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16},
            "type of the arrays (default: f32)");
  add_precision(command, sizes.precision);
  add_threads(command);
}

void AttentionSizes::complete() {
  if (kv_heads == 0) kv_heads = heads;
  if (value_dim == 0) value_dim = head_dim;
  if (!dtype) dtype = Dtype::f32;
  if (heads % kv_heads != 0) throw UsageError("--kv-heads", fmt::format("{} must divide --heads {}", kv_heads, heads));
}

}  // namespace qkv::app
