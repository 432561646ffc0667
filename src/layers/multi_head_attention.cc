// MultiHeadAttention: config, parameters and the way through the steps. The attention itself is in head_attention.cc.
#include "qkv/multi_head_attention.h"

#include <fmt/format.h>

#include <stdexcept>

#include "layers/check_size.h"
#include "layers/head_attention.h"
#include "layers/head_schemes.h"
#include "layers/rows.h"

namespace qkv {
namespace {

const std::string kRoles[] = {"query", "key", "value"};

MultiHeadAttentionConfig checked(MultiHeadAttentionConfig config) {
  const auto size = [](std::string_view name, std::int64_t value) { check_size("multi_head_attention", name, value); };
  size("model_dim", config.model_dim);
  size("heads", config.heads);
  if (config.head_dim == 0) {
    if (config.model_dim % config.heads != 0) {
      throw std::invalid_argument(fmt::format("multi_head_attention: model_dim {} is not divisible by {} heads",
                                              config.model_dim, config.heads));
    }
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
  return config;
}

std::int64_t input_dim(const MultiHeadAttentionConfig& config, int role) {
  return role == 0 ? config.model_dim : role == 1 ? config.key_input_dim : config.value_input_dim;
}

// Part `part` (as in head_schemes.h) of the projection of a role. In the packed scheme several roles may share a
// tensor, one below the other.
std::string parameter_name(const MultiHeadAttentionConfig& config, int role, const std::string& part) {
  if (config.scheme != HeadScheme::packed) return kRoles[role] + "." + part;
  const bool joint = config.key_input_dim == config.model_dim && config.value_input_dim == config.model_dim;
  if (joint || part == "bias") return "in_proj_" + part;
  return kRoles[role].substr(0, 1) + "_proj_" + part;
}

// The list of parameters: their names and shapes in order, without the output projection.
std::vector<std::pair<std::string, Dims>> parameter_shapes(const MultiHeadAttentionConfig& config) {
  const std::int64_t inner = config.heads * config.head_dim;
  std::vector<std::pair<std::string, Dims>> list;
  const auto add = [&](int role, const std::string& part, const Dims& shape) {
    const std::string name = parameter_name(config, role, part);
    for (auto& [known, known_shape] : list) {
      if (known != name) continue;
      known_shape[0] += shape[0];
      return;
    }
    list.emplace_back(name, shape);
  };
  for (int role = 0; role < 3; ++role) {
    const std::int64_t in = input_dim(config, role);
    if (config.scheme == HeadScheme::packed) {
      add(role, "weight", {inner, in});
      if (config.bias) add(role, "bias", {inner});
      continue;
    }
    const bool shared = config.scheme == HeadScheme::two_stage;
    if (shared) add(role, "shared_weight", {inner, in});
    if (shared && config.bias) add(role, "shared_bias", {inner});
    add(role, "weight", {config.heads, config.head_dim, shared ? inner : in});
    if (config.bias) add(role, "bias", {config.heads, config.head_dim});
  }
  if (config.bias_kv) {
    list.emplace_back("bias_k", Dims{1, 1, inner});
    list.emplace_back("bias_v", Dims{1, 1, inner});
  }
  return list;
}

// The learnt row, if given, then a row of zeros, if wished.
Tensor extra_rows(const MultiHeadAttentionConfig& config, const TensorView& learnt, Dtype dtype) {
  const std::int64_t count = (config.bias_kv ? 1 : 0) + (config.zero_attention ? 1 : 0);
  Tensor rows = Tensor::zeros({count, config.heads, config.head_dim}, dtype);
  if (learnt) convert(learnt.reshape({1, config.heads, config.head_dim}), rows.view().slice(0, 0, 1));
  return rows;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionConfig& config, Weights& weights,
                                       const std::string& scope)
    : config_(checked(config)),
      out_({.in = config_.heads * config_.head_dim, .out = config_.out_dim, .bias = config_.bias}, weights,
           scope + "out_proj.") {
  for (const auto& [name, shape] : parameter_shapes(config_)) {
    parameters_.emplace_back(name, weights.take(scope + name, shape));
  }
  for (int role = 0; role < 3; ++role) projections_.emplace_back(head_weights(role));
  extra_key_ = extra_rows(config_, parameter("bias_k"), weights.dtype());
  extra_value_ = extra_rows(config_, parameter("bias_v"), weights.dtype());
}

TensorView MultiHeadAttention::parameter(const std::string& name) const {
  for (const auto& [own_name, tensor] : parameters_) {
    if (own_name == name) return tensor.view();
  }
  return {};
}

HeadWeights MultiHeadAttention::head_weights(int role) const {
  const auto part = [&](const std::string& name) {
    const TensorView whole = parameter(parameter_name(config_, role, name));
    const std::int64_t inner = config_.heads * config_.head_dim;
    const bool joint = whole && config_.scheme == HeadScheme::packed && whole.size(0) == 3 * inner;
    return joint ? whole.slice(0, role * inner, (role + 1) * inner) : whole;
  };
  return {.weight = part("weight"),
          .bias = part("bias"),
          .shared_weight = part("shared_weight"),
          .shared_bias = part("shared_bias")};
}

Tensor MultiHeadAttention::forward(const Sequences& x, const MultiHeadAttentionOptions& options,
                                   Observer* observer) const {
  return forward(x, x, x, options, observer);
}

Tensor MultiHeadAttention::forward(const Sequences& query, const Sequences& memory,
                                   const MultiHeadAttentionOptions& options, Observer* observer) const {
  return forward(query, memory, memory, options, observer);
}

Tensor MultiHeadAttention::forward(const Sequences& query, const Sequences& key, const Sequences& value,
                                   const MultiHeadAttentionOptions& options, Observer* observer) const {
  const Sequences* inputs[] = {&query, &key, &value};
  Tensor projected[3];
  for (int role = 0; role < 3; ++role) {
    const Rows rows("multi_head_attention: " + kRoles[role], inputs[role]->rows, input_dim(config_, role));
    projected[role] = projections_[static_cast<std::size_t>(role)].forward(rows.view(), options.threads);
  }
  const HeadAttention attention{.heads = config_.heads,
                                .query = {projected[0], query},
                                .key = {projected[1], key},
                                .value = {projected[2], value},
                                .extra_key = extra_key_,
                                .extra_value = extra_value_};
  Tensor merged = Tensor::uninitialized(projected[0].shape(), projected[0].dtype());
  attend_heads(attention, merged, options, observer);
  Tensor out = Tensor::uninitialized(with_last(query.rows.shape(), config_.out_dim), merged.dtype());
  out_.forward(merged, out.view().reshape({merged.size(0), config_.out_dim}), options.threads);
  if (observer != nullptr) {
    observer->receive("merged", merged.view().reshape(with_last(query.rows.shape(), merged.size(1))));
    observer->receive("output", out);
  }
  return out;
}

MultiHeadAttention MultiHeadAttention::with_scheme(HeadScheme scheme) const {
  MultiHeadAttentionConfig config = config_;
  config.scheme = scheme;
  std::map<std::string, Tensor> tensors;
  for (const std::string name : {"bias_k", "bias_v"}) {
    if (parameter(name)) tensors[name] = Tensor::copy(parameter(name));
  }
  out_.visit([&](const std::string& name, const Tensor& tensor) { tensors[name] = tensor; }, "out_proj.");
  std::map<std::string, std::vector<Tensor>> parts;
  for (int role = 0; role < 3; ++role) {
    const OwnedHeadWeights packed = fold_heads(head_weights(role));
    const HeadWeights view{.weight = packed.at("weight"),
                           .bias = config.bias ? packed.at("bias").view() : TensorView()};
    for (auto& [part, tensor] : unfold_heads(view, scheme, config.heads)) {
      parts[parameter_name(config, role, part)].push_back(std::move(tensor));
    }
  }
  for (auto& [name, list] : parts) tensors[name] = stack_rows(std::move(list));
  Weights weights(std::move(tensors), "multi_head_attention", extra_key_.dtype());
  return MultiHeadAttention(config, weights);
}

void MultiHeadAttention::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  for (const auto& [name, tensor] : parameters_) visitor(scope + name, tensor);
  out_.visit(visitor, scope + "out_proj.");
}

}  // namespace qkv
