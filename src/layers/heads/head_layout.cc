// Lists the parameters of multi-head attention, and the shares that the projections have of them.
#include "layers/heads/head_layout.h"

#include <algorithm>

namespace qkv {
namespace {

class Builder {
 public:
  // A share of `rows` in a parameter, below those that it has already; matrices of `part_rows` rows, 0: none.
  ParameterShare add(const std::string& name, const Dims& shape, std::int64_t part_rows = 0) {
    auto entry = std::ranges::find(layout.entries, name, &HeadLayout::Entry::name);
    if (entry == layout.entries.end()) {
      Dims empty = shape;
      empty[0] = 0;
      entry = layout.entries.insert(entry, {name, empty, {}});
    }
    const ParameterShare share{.parameter = static_cast<std::size_t>(entry - layout.entries.begin()),
                               .begin = entry->shape[0],
                               .end = entry->shape[0] + shape[0],
                               .first_part = entry->part_rows.size()};
    entry->shape[0] = share.end;
    if (part_rows > 0) {
      const std::int64_t rows = element_count(shape) / shape[shape.size() - 1];
      entry->part_rows.insert(entry->part_rows.end(), static_cast<std::size_t>(rows / part_rows), part_rows);
    }
    return share;
  }

  HeadLayout layout;
};

}  // namespace

std::int64_t input_dim(const MultiHeadAttentionConfig& config, int role) {
  return role == 0 ? config.model_dim : role == 1 ? config.key_input_dim : config.value_input_dim;
}

std::int64_t heads_of(const MultiHeadAttentionConfig& config, int role) {
  return role == 0 ? config.heads : config.kv_heads;
}

bool has_bias(const MultiHeadAttentionConfig& config, int role) {
  const ProjectionBias& own = config.projection_bias;
  return config.bias && (role == 0 ? own.query : role == 1 ? own.key : own.value);
}

HeadLayout head_layout(const MultiHeadAttentionConfig& config) {
  const bool joint = config.key_input_dim == config.model_dim && config.value_input_dim == config.model_dim;
  Builder builder;
  for (int role = 0; role < 3; ++role) {
    ProjectionLayout& own = builder.layout.roles[role];
    const std::string name = kRoles[role];
    const std::int64_t in = input_dim(config, role), heads = heads_of(config, role), inner = heads * config.head_dim;
    const bool bias = has_bias(config, role);
    if (config.scheme == HeadScheme::packed) {
      own.weight = builder.add(joint ? "in_proj_weight" : name.substr(0, 1) + "_proj_weight", {inner, in}, inner);
      if (bias) own.bias = builder.add("in_proj_bias", {inner});
      continue;
    }
    const bool shared = config.scheme == HeadScheme::two_stage;
    if (shared) own.shared_weight = builder.add(name + ".shared_weight", {inner, in}, inner);
    if (shared && bias) own.shared_bias = builder.add(name + ".shared_bias", {inner});
    own.weight = builder.add(name + ".weight", {heads, config.head_dim, shared ? inner : in}, config.head_dim);
    if (bias) own.bias = builder.add(name + ".bias", {heads, config.head_dim});
  }
  if (config.bias_kv) {
    const std::int64_t inner = config.kv_heads * config.head_dim;
    builder.layout.bias_k = builder.add("bias_k", {1, 1, inner}).parameter;
    builder.layout.bias_v = builder.add("bias_v", {1, 1, inner}).parameter;
  }
  return std::move(builder.layout);
}

}  // namespace qkv
