// MultiHeadAttention: config, parameters and the order of the steps. The attention itself is in head_attention.cc.
#include "qkv/layers/multi_head_attention.h"

#include <fmt/format.h>

#include <list>
#include <stdexcept>

#include "core/stop.h"
#include "core/visit_dtype.h"
#include "layers/basic/check_size.h"
#include "layers/basic/rows.h"
#include "layers/heads/head_gradients.h"
#include "layers/heads/head_operands.h"
#include "layers/heads/head_schemes.h"

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
  if (config.rotary && config.head_dim % 2 != 0) {
    throw std::invalid_argument(
        fmt::format("multi_head_attention: head_dim {} is odd; rotary positions need pairs", config.head_dim));
  }
  if (config.rotary && (config.bias_kv || config.zero_attention)) {
    throw std::invalid_argument(
        "multi_head_attention: bias_kv and zero_attention keys have no position; they cannot be combined with "
        "rotary positions");
  }
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

// The rows of a role in a tensor that several share.
template <class View>
View share_of(const MultiHeadAttentionConfig& config, int role, const View& whole) {
  const std::int64_t inner = config.heads * config.head_dim;
  const bool joint = whole && config.scheme == HeadScheme::packed && whole.size(0) == 3 * inner;
  return joint ? whole.slice(0, role * inner, (role + 1) * inner) : whole;
}

// The learnt row, if given, then a row of zeros, if wished.
Tensor extra_rows(const MultiHeadAttentionConfig& config, const TensorView& learnt, Dtype dtype) {
  const std::int64_t count = (config.bias_kv ? 1 : 0) + (config.zero_attention ? 1 : 0);
  Tensor rows = Tensor::zeros({count, config.heads, config.head_dim}, dtype);
  if (learnt) convert(learnt.reshape({1, config.heads, config.head_dim}), rows.view().slice(0, 0, 1));
  return rows;
}

// The learnt row is the first of the extra ones.
void add_learnt(const Tensor& extra, const MutableTensorView& gradient) {
  if (!gradient) return;
  const auto add = [&]<class T>(T) {
    for (std::int64_t i = 0; i < gradient.element_count(); ++i) gradient.data<T>()[i] += extra.data<T>()[i];
  };
  visit_f32_f64(gradient.dtype(), add);
}

struct InputRows {
  InputRows(const std::string& name, const TensorView& x, std::int64_t size)
      : rows(name, x, size), packed(rows.view()) {}

  LayerRows rows;
  PackedRows packed;
};

}  // namespace

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionConfig& config, Weights& weights,
                                       const std::string& scope)
    : config_(checked(config)),
      storage_(weights.storage()),
      out_({.in = config_.heads * config_.head_dim, .out = config_.out_dim, .bias = config_.bias}, weights,
           scope + "out_proj.") {
  for (const auto& [name, shape] : parameter_shapes(config_)) {
    parameters_.emplace_back(name, Parameter{.value = weights.take(scope + name, shape)});
  }
  pack();
}

void MultiHeadAttention::pack() {
  projections_.clear();
  for (int role = 0; role < 3; ++role) projections_.emplace_back(head_weights(role), storage_);
  const Dtype dtype = parameters_.front().second.value.dtype();
  extra_key_ = extra_rows(config_, value_of("bias_k"), dtype);
  extra_value_ = extra_rows(config_, value_of("bias_v"), dtype);
}

TensorView MultiHeadAttention::value_of(const std::string& name) const {
  for (const auto& [own_name, own] : parameters_) {
    if (own_name == name) return own.value.view();
  }
  return {};
}

MutableTensorView MultiHeadAttention::gradient_of(const std::string& name) {
  for (auto& [own_name, own] : parameters_) {
    if (own_name == name) return gradient_place(own);
  }
  return {};
}

HeadWeights MultiHeadAttention::head_weights(int role) const {
  const auto part = [&](const std::string& name) {
    return share_of(config_, role, value_of(parameter_name(config_, role, name)));
  };
  return {.weight = part("weight"),
          .bias = part("bias"),
          .shared_weight = part("shared_weight"),
          .shared_bias = part("shared_bias")};
}

HeadGradients MultiHeadAttention::head_gradients(int role) {
  const auto part = [&](const std::string& name) {
    return share_of(config_, role, gradient_of(parameter_name(config_, role, name)));
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

// Those of query, key and value.
struct MultiHeadAttention::Inputs {
  const Sequences& operator[](int role) const { return role == 0 ? query : role == 1 ? key : value; }
  const Sequences &query, &key, &value;
};

Tensor MultiHeadAttention::forward(const Sequences& query, const Sequences& key, const Sequences& value,
                                   const MultiHeadAttentionOptions& options, Observer* observer) const {
  MultiHeadAttentionSaved saved;
  return run({query, key, value}, options, observer, saved, {});
}

Tensor MultiHeadAttention::forward(const Sequences& query, const Sequences& key, const Sequences& value,
                                   const MultiHeadAttentionOptions& options, MultiHeadAttentionSaved& saved) const {
  saved.log_sum_exp = Tensor::uninitialized(log_sum_exp_shape(query, config_.heads), extra_key_.dtype());
  return run({query, key, value}, options, nullptr, saved, saved.log_sum_exp);
}

void MultiHeadAttention::rotate(const Sequences& form, Tensor& projected, int direction, int threads,
                                std::span<const std::int64_t> starts) const {
  if (!config_.rotary) return;
  rotate_heads(*config_.rotary, row_positions(form, starts), config_.heads, projected, direction, threads);
}

HeadAttention MultiHeadAttention::middle(const Inputs& inputs, const MultiHeadAttentionSaved& saved) const {
  return {.heads = config_.heads,
          .query = {saved.query, inputs.query},
          .key = {saved.key, inputs.key},
          .value = {saved.value, inputs.value},
          .extra_key = extra_key_,
          .extra_value = extra_value_};
}

Tensor MultiHeadAttention::run(const Inputs& inputs, const MultiHeadAttentionOptions& options, Observer* observer,
                               MultiHeadAttentionSaved& saved, const MutableTensorView& log_sum_exp) const {
  Tensor* projected[] = {&saved.query, &saved.key, &saved.value};
  for (int role = 0; role < 3; ++role) {
    check_stop(&options.stop);
    const LayerRows rows("multi_head_attention: " + kRoles[role], inputs[role].rows, input_dim(config_, role));
    *projected[role] = projections_[static_cast<std::size_t>(role)].forward(rows.view(), options.threads);
  }
  if (config_.rotary && options.mask.align() == Align::bottom_right) {
    throw std::invalid_argument(
        "multi_head_attention: rotary positions count from the start of each sequence; the mask must be top_left");
  }
  rotate(inputs.query, saved.query, 1, options.threads);
  rotate(inputs.key, saved.key, 1, options.threads);
  saved.merged = Tensor::uninitialized(saved.query.shape(), saved.query.dtype());
  const Tensor& merged = saved.merged;
  attend_heads(middle(inputs, saved), saved.merged, log_sum_exp, options, observer);
  const Dims& shape = inputs.query.rows.shape();
  Tensor out = Tensor::uninitialized(with_last(shape, config_.out_dim), merged.dtype());
  out_.forward(merged, out.view().reshape({merged.size(0), config_.out_dim}), options.threads);
  if (observer != nullptr) {
    observer->receive("merged", merged.view().reshape(with_last(shape, merged.size(1))));
    observer->receive("output", out);
  }
  return out;
}

void MultiHeadAttention::backward(const Sequences& query, const Sequences& key, const Sequences& value,
                                  const MultiHeadAttentionOptions& options, const MultiHeadAttentionSaved& saved,
                                  const TensorView& grad_out, const MultiHeadAttentionGradients& gradients) {
  const Inputs inputs{query, key, value};
  const LayerRows grad_rows("multi_head_attention: gradient", grad_out, config_.out_dim);
  Tensor grad_merged = Tensor::zeros(saved.merged.shape(), saved.merged.dtype());
  out_.backward(saved.merged, grad_rows.view(), grad_merged, options.threads);
  HeadAttentionGradients middle_gradients = attend_heads_backward(
      middle(inputs, saved), {.merged = saved.merged, .log_sum_exp = saved.log_sum_exp, .grad_merged = grad_merged},
      options);
  rotate(query, middle_gradients.query, -1, options.threads);
  rotate(key, middle_gradients.key, -1, options.threads);

  // Inputs that are one another, as in self-attention, are packed once.
  std::list<InputRows> packed;
  PackedRows* rows_of[3] = {};
  const Tensor* projected[] = {&middle_gradients.query, &middle_gradients.key, &middle_gradients.value};
  const MutableTensorView* places[] = {&gradients.query, &gradients.key, &gradients.value};
  for (int role = 0; role < 3; ++role) {
    const TensorView& rows = inputs[role].rows;
    for (int earlier = 0; earlier < role; ++earlier) {
      const TensorView& other = inputs[earlier].rows;
      if (rows.bytes() == other.bytes() && rows.shape() == other.shape() && rows.strides() == other.strides()) {
        rows_of[role] = rows_of[earlier];
      }
    }
    const std::string name = "multi_head_attention: " + kRoles[role];
    if (rows_of[role] == nullptr) rows_of[role] = &packed.emplace_back(name, rows, input_dim(config_, role)).packed;
    heads_backward(*rows_of[role], head_weights(role), *projected[role], head_gradients(role),
                   *places[role] ? place_rows(name, "its gradient", *places[role], rows.shape()) : *places[role],
                   options.threads);
  }
  add_learnt(middle_gradients.extra_key, gradient_of("bias_k"));
  add_learnt(middle_gradients.extra_value, gradient_of("bias_v"));
}

MultiHeadAttention MultiHeadAttention::with_scheme(HeadScheme scheme) const {
  MultiHeadAttentionConfig config = config_;
  config.scheme = scheme;
  std::map<std::string, Tensor> tensors;
  for (const std::string name : {"bias_k", "bias_v"}) {
    if (value_of(name)) tensors[name] = Tensor::copy(value_of(name));
  }
  out_.visit([&](const std::string& name, const Parameter& own) { tensors[name] = own.value; }, "out_proj.");
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
  for (const auto& [name, own] : parameters_) visitor(scope + name, own);
  out_.visit(visitor, scope + "out_proj.");
}

void MultiHeadAttention::update(const ParameterUpdater& updater, const std::string& scope) {
  for (auto& [name, own] : parameters_) updater(scope + name, own);
  out_.update(updater, scope + "out_proj.");
  pack();
}

}  // namespace qkv
