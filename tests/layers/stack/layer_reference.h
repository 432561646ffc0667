// A Transformer layer for every option that it has, and the layer of one sequence in plain double loops, written from
// the formulas of these options.
#pragma once

#include "qkv/layers/transformer_layer.h"

namespace qkv::testing {

// Of 4 heads of 2 unless the option says otherwise.
inline TransformerLayerConfig small_layer(const TransformerLayerConfig& changes) {
  TransformerLayerConfig config = changes;
  config.model_dim = 8;
  config.heads = 4;
  config.ff_dim = 5;
  config.epsilon = 1e-2;
  if (config.activation == Activation::relu) config.activation = Activation::gelu;  // relu has a bend
  return config;
}

inline std::vector<std::pair<std::string, TransformerLayerConfig>> layer_options() {
  std::vector<std::pair<std::string, TransformerLayerConfig>> options{
      {"plain", {}},
      {"kv_heads", {.kv_heads = 2}},
      {"one kv_head of head_dim 3", {.kv_heads = 1, .head_dim = 3}},
      {"bias of queries and values", {.attention_bias = {.key = false, .out = false}}},
      {"bias of keys", {.attention_bias = {.query = false, .value = false}, .feed_forward_bias = false}},
      {"no bias", {.bias = false, .gated = true}},
      {"scale", {.scale = 0.3}},
      {"soft_cap", {.soft_cap = 0.8}},
      {"gelu_tanh", {.activation = Activation::gelu_tanh}},
      {"gated silu", {.activation = Activation::silu, .gated = true}},
      {"gated gelu_tanh", {.activation = Activation::gelu_tanh, .gated = true}},
      {"pre", {.norm_order = NormOrder::pre}},
      {"pre rms", {.norm_order = NormOrder::pre, .normalization = Normalization::rms}},
      {"both", {.norm_order = NormOrder::both}},
      {"none", {.norm_order = NormOrder::none}},
      {"pre without the first", {.norm_order = NormOrder::pre, .attention_norm = false}},
      {"both rms", {.norm_order = NormOrder::both, .normalization = Normalization::rms}},
      {"parallel", {.norm_order = NormOrder::parallel}},
      {"parallel_norms", {.norm_order = NormOrder::parallel_norms}},
      {"query_key_norm", {.kv_heads = 2, .query_key_norm = 0.1}},
      {"window", {.window = AttentionWindow{.left = 1, .right = 0}}},
      {"all",
       {.activation = Activation::gelu_tanh,
        .attention_bias = {.key = false},
        .feed_forward_bias = false,
        .gated = true,
        .norm_order = NormOrder::both,
        .normalization = Normalization::rms,
        .kv_heads = 2,
        .head_dim = 3,
        .scale = 0.7,
        .soft_cap = 1.5,
        .window = AttentionWindow{.left = 2, .right = 0},
        .query_key_norm = 0.2}}};
  for (auto& [name, config] : options) config = small_layer(config);
  return options;
}

// Of the weights of an attention, "self_attn." or "multihead_attn.": keys that a head does not see, and what is added
// to a weight after softmax. A query without keys has weights of 0.
struct ReferenceChanges {
  std::function<bool(const std::string& scope, std::int64_t head, std::size_t key)> hidden{};
  std::function<double(const std::string& scope, std::int64_t head, std::size_t query, std::size_t key)> added{};
};

class ReferenceLayer {
 public:
  using Rows = std::vector<std::vector<double>>;

  ReferenceLayer(const TransformerLayerConfig& config, const std::map<std::string, Tensor>& tensors,
                 ReferenceChanges changes = {})
      : config_(config), tensors_(tensors), changes_(std::move(changes)) {}

  Rows forward(const Rows& x, const Rows& memory, bool causal) const {
    const auto self = [&](const Rows& rows) { return attention("self_attn.", rows, rows, causal, true); };
    const auto cross = [&](const Rows& rows) { return attention("multihead_attn.", rows, memory, false, false); };
    const auto feed = [&](const Rows& rows) { return feed_forward(rows); };
    if (config_.norm_order == NormOrder::parallel || config_.norm_order == NormOrder::parallel_norms) {
      const bool one = config_.norm_order == NormOrder::parallel;
      return sum(x, sum(self(norm("norm1.", x)), feed(norm(one ? "norm1." : "norm2.", x))));
    }
    Rows y = residual("norm1.", x, self);
    if (!memory.empty()) y = residual("norm2.", y, cross);
    return residual(memory.empty() ? "norm2." : "norm3.", y, feed);
  }

  // Self-attention alone, its weights without a scope.
  Rows heads(const Rows& x) const { return attention("", x, x, false, false); }

 private:
  template <class F>
  Rows residual(const std::string& scope, const Rows& x, const F& f) const {
    if (config_.norm_order == NormOrder::none || (scope == "norm1." && !config_.attention_norm)) return sum(x, f(x));
    if (config_.norm_order == NormOrder::post) return norm(scope, sum(x, f(x)));
    Rows inner = f(norm(scope, x));
    if (config_.norm_order == NormOrder::both) inner = norm(scope + "after.", inner);
    return sum(x, inner);
  }

  static Rows sum(Rows a, const Rows& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (std::size_t e = 0; e < a[i].size(); ++e) a[i][e] += b[i][e];
    }
    return a;
  }

  const double* find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : found->second.data<double>();
  }

  // weight [out, in] from its row `first` on.
  static Rows linear(const Rows& x, const double* weight, const double* bias, std::int64_t out) {
    Rows result;
    for (const auto& row : x) {
      auto& to = result.emplace_back();
      for (std::int64_t o = 0; o < out; ++o) {
        double total = bias == nullptr ? 0 : bias[o];
        for (std::size_t i = 0; i < row.size(); ++i) {
          total += row[i] * weight[static_cast<std::size_t>(o) * row.size() + i];
        }
        to.push_back(total);
      }
    }
    return result;
  }

  Rows norm(const std::string& scope, Rows x) const {
    const double *weight = find(scope + "weight"), *bias = find(scope + "bias");
    for (auto& row : x) {
      const auto size = static_cast<double>(row.size());
      double mean = 0, squares = 0;
      for (const double e : row) mean += e / size;
      if (config_.normalization == Normalization::rms) mean = 0;
      for (const double e : row) squares += (e - mean) * (e - mean) / size;
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = (row[i] - mean) / std::sqrt(squares + config_.epsilon) * weight[i] + (bias == nullptr ? 0 : bias[i]);
      }
    }
    return x;
  }

  void norm_heads(const std::string& weight, std::int64_t size, Rows& rows) const {
    for (auto& row : rows) {
      for (std::size_t begin = 0; begin < row.size(); begin += static_cast<std::size_t>(size)) {
        double squares = 0;
        for (std::size_t e = 0; e < static_cast<std::size_t>(size); ++e) squares += row[begin + e] * row[begin + e];
        const double root = std::sqrt(squares / static_cast<double>(size) + *config_.query_key_norm);
        for (std::size_t e = 0; e < static_cast<std::size_t>(size); ++e) row[begin + e] *= find(weight)[e] / root;
      }
    }
  }

  Rows attention(const std::string& scope, const Rows& x, const Rows& memory, bool causal, bool of_self) const {
    const std::int64_t heads = config_.heads, kv_heads = config_.kv_heads == 0 ? heads : config_.kv_heads;
    const std::int64_t size = config_.head_dim == 0 ? config_.model_dim / heads : config_.head_dim;
    const double *weight = find(scope + "in_proj_weight"), *bias = find(scope + "in_proj_bias");
    const auto project = [&](const Rows& rows, std::int64_t count, bool has_bias) {
      Rows projected = linear(rows, weight, config_.bias && has_bias ? bias : nullptr, count * size);
      weight += count * size * config_.model_dim;
      if (config_.bias && has_bias) bias += count * size;
      return projected;
    };
    Rows query = project(x, heads, config_.attention_bias.query);
    Rows key = project(memory, kv_heads, config_.attention_bias.key);
    if (of_self && config_.query_key_norm) {
      norm_heads(scope + "q_norm.weight", size, query);
      norm_heads(scope + "k_norm.weight", size, key);
    }
    const Rows value = project(memory, kv_heads, config_.attention_bias.value);
    const double scale = config_.scale.value_or(1 / std::sqrt(static_cast<double>(size)));
    Rows merged(x.size(), std::vector<double>(static_cast<std::size_t>(heads * size)));
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto own = static_cast<std::size_t>(h * size);
        const auto shared = static_cast<std::size_t>(h / (heads / kv_heads) * size);
        std::vector<double> weights;
        double total = 0, most = -std::numeric_limits<double>::infinity();
        for (std::size_t j = 0; j < memory.size(); ++j) {
          double logit = 0;
          for (std::size_t e = 0; e < static_cast<std::size_t>(size); ++e) {
            logit += query[i][own + e] * key[j][shared + e];
          }
          logit *= scale;
          if (config_.soft_cap > 0) logit = config_.soft_cap * std::tanh(logit / config_.soft_cap);
          const bool hidden = changes_.hidden && changes_.hidden(scope, h, j);
          weights.push_back(sees(i, j, causal, of_self) && !hidden ? logit : -std::numeric_limits<double>::infinity());
          most = std::max(most, weights.back());
        }
        for (double& own_weight : weights)
          total += own_weight = std::isinf(own_weight) ? 0 : std::exp(own_weight - most);
        if (total == 0) total = 1;
        for (std::size_t j = 0; j < memory.size(); ++j) {
          if (changes_.added) weights[j] += total * changes_.added(scope, h, i, j);
          for (std::size_t e = 0; e < static_cast<std::size_t>(size); ++e) {
            merged[i][own + e] += weights[j] / total * value[j][shared + e];
          }
        }
      }
    }
    return linear(merged, find(scope + "out_proj.weight"), find(scope + "out_proj.bias"), config_.model_dim);
  }

  bool sees(std::size_t i, std::size_t j, bool causal, bool windowed) const {
    const std::int64_t ahead = static_cast<std::int64_t>(j) - static_cast<std::int64_t>(i);
    if (causal && ahead > 0) return false;
    if (!windowed || !config_.window) return true;
    const auto [left, right] = *config_.window;
    return (left < 0 || -ahead <= left) && (right < 0 || ahead <= right);
  }

  double activation(double x) const {
    switch (config_.activation) {
      case Activation::relu:
        return x > 0 ? x : 0;
      case Activation::gelu:
        return x * 0.5 * std::erfc(-x * std::sqrt(0.5));
      case Activation::gelu_tanh:
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
      case Activation::silu:
        return x / (1 + std::exp(-x));
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

  Rows feed_forward(const Rows& x) const {
    Rows wide = linear(x, find("linear1.weight"), find("linear1.bias"), config_.ff_dim);
    const Rows gate = config_.gated ? linear(x, find("linear3.weight"), find("linear3.bias"), config_.ff_dim) : Rows();
    for (std::size_t i = 0; i < wide.size(); ++i) {
      for (std::size_t e = 0; e < wide[i].size(); ++e) {
        wide[i][e] = activation(wide[i][e]) * (config_.gated ? gate[i][e] : 1);
      }
    }
    return linear(wide, find("linear2.weight"), find("linear2.bias"), config_.model_dim);
  }

  const TransformerLayerConfig& config_;
  const std::map<std::string, Tensor>& tensors_;
  const ReferenceChanges changes_;
};

// [length, model_dim], f64, as rows and back; no tensor: no rows.
inline ReferenceLayer::Rows to_rows(const Tensor& tensor) {
  ReferenceLayer::Rows rows;
  for (std::int64_t i = 0; tensor.rank() == 2 && i < tensor.size(0); ++i) {
    const double* row = tensor.data<double>() + i * tensor.size(1);
    rows.emplace_back(row, row + tensor.size(1));
  }
  return rows;
}

inline Tensor from_rows(const ReferenceLayer::Rows& rows) {
  std::vector<double> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return Tensor::of({std::ssize(rows), std::ssize(all) / std::ssize(rows)}, all);
}

// Without memory: a layer that has none.
inline Tensor reference_layer(const TransformerLayerConfig& config, const std::map<std::string, Tensor>& tensors,
                              const Tensor& x, const Tensor& memory, bool causal) {
  return from_rows(ReferenceLayer(config, tensors).forward(to_rows(x), to_rows(memory), causal));
}

}  // namespace qkv::testing
