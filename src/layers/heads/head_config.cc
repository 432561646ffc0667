// Replaces what a config of multi-head attention leaves to defaults, and refuses what does not fit together.
#include <fmt/format.h>

#include <cmath>

#include "core/refuse.h"
#include "layers/basic/layer_checks.h"
#include "layers/heads/head_layout.h"

namespace qkv {

MultiHeadAttentionConfig checked_config(MultiHeadAttentionConfig config) {
  const auto size = [](std::string_view name, std::int64_t value) { check_size("multi_head_attention", name, value); };
  size("model_dim", config.model_dim);
  size("heads", config.heads);
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  size("kv_heads", config.kv_heads);
  refuse_unless(config.heads % config.kv_heads == 0, "multi_head_attention",
                "{} heads are not divisible by {} kv_heads", config.heads, config.kv_heads);
  if (config.head_dim == 0) {
    refuse_unless(config.model_dim % config.heads == 0, "multi_head_attention",
                  "model_dim {} is not divisible by {} heads", config.model_dim, config.heads);
    config.head_dim = config.model_dim / config.heads;
  }
  for (std::int64_t* dim : {&config.key_input_dim, &config.value_input_dim, &config.out_dim}) {
    if (*dim == 0) *dim = config.model_dim;
  }
  size("head_dim", config.head_dim);
  size("heads * head_dim", config.heads * config.head_dim);
  size("key_input_dim", config.key_input_dim);
  size("value_input_dim", config.value_input_dim);
  size("out_dim", config.out_dim);
  refuse_unless(std::isfinite(config.scale.value_or(0)) && config.soft_cap >= 0 && std::isfinite(config.soft_cap),
                "multi_head_attention", "scale {} and soft_cap {} must be finite, soft_cap 0 or more",
                config.scale.value_or(0), config.soft_cap);
  refuse_unless(!config.query_key_norm || (*config.query_key_norm >= 0 && std::isfinite(*config.query_key_norm)),
                "multi_head_attention", "query_key_norm is {}; it must be finite, 0 or more",
                config.query_key_norm.value_or(0));
  const bool extra_keys = config.bias_kv || config.zero_attention;
  if (config.window) {
    refuse_unless(config.window->left >= -1 && config.window->right >= -1, "multi_head_attention",
                  "the window is {}, {}; its sides must be -1 or more", config.window->left, config.window->right);
    refuse_unless(!extra_keys, "multi_head_attention",
                  "bias_kv and zero_attention keys have no position; they cannot be combined with a window");
  }
  if (config.rotary) {
    check_rotary("multi_head_attention", *config.rotary, config.head_dim);
    refuse_unless(!extra_keys, "multi_head_attention",
                  "bias_kv and zero_attention keys have no position; they cannot be combined with rotary positions");
  }
  return config;
}

}  // namespace qkv
