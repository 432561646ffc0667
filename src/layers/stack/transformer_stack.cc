// TransformerStack: forward and backward through layers and a final norm, and token by token.
#include <fmt/format.h>

#include "core/refuse.h"
#include "layers/basic/scoped_observer.h"
#include "layers/stack/layer_parts.h"
#include "qkv/layers/transformer.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

std::string layer_scope(std::size_t layer) { return fmt::format("layers.{}.", layer); }

Dropout of_layer(const Dropout& dropout, std::size_t layer) {
  return dropout_at(dropout, static_cast<std::uint32_t>(layer));
}

}  // namespace

TransformerStack::TransformerStack(const Config& config, LayerMemory memory, Weights& weights,
                                   const std::string& scope) {
  const auto layers = static_cast<std::size_t>(config.layers);
  if (!config.each.empty() && config.each.size() != layers) {
    refuse("transformer_stack", "{} layers have {} configs of their own; give one for each, or none", layers,
           config.each.size());
  }
  for (std::size_t i = 0; i < layers; ++i) {
    layers_.emplace_back(config.each.empty() ? config.layer : config.each[i], memory, weights, scope + layer_scope(i));
  }
  if (config.final_norm) norm_.emplace(norm_config(config.layer), weights, scope + "norm.");
}

Tensor TransformerStack::run(const TransformerLayerInput& in, Observer* observer, const StackMasks& masks) const {
  Tensor x = Tensor::copy(in.x.rows);
  run(in, x, observer, masks);
  return x;
}

void TransformerStack::run(const TransformerLayerInput& in, Tensor& x, Observer* observer,
                           const StackMasks& masks) const {
  const StopScope stop(in.self.stop);
  for (const std::span<const Mask>& own : {masks.self, masks.memory}) {
    if (!own.empty() && own.size() != layers_.size()) {
      refuse("transformer_stack", "{} layers have {} masks; give one for each, or none", layers_.size(), own.size());
    }
  }
  TransformerLayerInput input = in;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!masks.self.empty()) input.self.mask = in.self.mask & masks.self[i];
    if (!masks.memory.empty()) input.to_memory.mask = in.to_memory.mask & masks.memory[i];
    observed(observer, layer_scope(i), [&](Observer* scoped) { layers_[i].run(input, x, scoped); });
  }
  if (!norm_) return;
  norm_->forward(x, {}, x, in.self.threads);
  if (observer != nullptr) observer->receive("norm", x);
}

Tensor TransformerStack::run(const TransformerLayerInput& in, const Dropout& dropout, Saved& saved) const {
  const StopScope stop(in.self.stop);
  saved.layers.clear();
  saved.layers.resize(layers_.size());
  saved.between.clear();
  TransformerLayerInput input = in;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Tensor out = layers_[i].run(input, of_layer(dropout, i), saved.layers[i]);
    if (i + 1 == layers_.size() && !norm_) return out;
    input.x.rows = saved.between.emplace_back(std::move(out));
  }
  return norm_ ? norm_->forward(input.x.rows, {}, in.self.threads) : Tensor::copy(in.x.rows);
}

Tensor TransformerStack::run_backward(const TransformerLayerInput& in, const Dropout& dropout, const Saved& saved,
                                      const TensorView& grad_out, const MutableTensorView& grad_memory,
                                      Observer* observer) {
  const StopScope stop(in.self.stop);
  const auto input_of = [&](std::size_t i) { return i == 0 ? in.x.rows : saved.between[i - 1].view(); };
  Tensor gradient;
  if (norm_) {
    gradient = Tensor::zeros(in.x.rows.shape(), in.x.rows.dtype());
    norm_->backward(input_of(layers_.size()), grad_out, gradient, in.self.threads);
  } else {
    gradient = Tensor::copy(grad_out);
  }
  TransformerLayerInput input = in;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    input.x.rows = input_of(i);
    gradient = observed(observer, layer_scope(i), [&](Observer* scoped) {
      return layers_[i].run_backward(input, of_layer(dropout, i), saved.layers[i], gradient, grad_memory, scoped);
    });
  }
  return gradient;
}

StackCache TransformerStack::make_cache(std::int64_t batch, std::optional<Dtype> dtype) const {
  Cache cache;
  for (const TransformerLayer& layer : layers_) cache.layers.push_back(layer.make_cache(batch, dtype));
  return cache;
}

StackCache TransformerStack::make_cache(const Sequences& memory, int threads) const {
  Cache cache;
  for (const TransformerLayer& layer : layers_) cache.layers.push_back(layer.make_cache(memory, threads));
  return cache;
}

Tensor TransformerStack::forward(const Sequences& x, Cache& cache, int threads, std::span<LastWeights> last,
                                 CacheQueries queries) const {
  if (!last.empty() && last.size() != layers_.size()) {
    refuse("transformer_stack", "{} layers are asked for {} weights; ask each, or none", layers_.size(), last.size());
  }
  Tensor rows;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    rows = layers_[i].forward(i == 0 ? x : with_rows(x, rows), cache.layers[i], threads,
                              last.empty() ? nullptr : &last[i], queries);
  }
  return norm_ ? norm_->forward(rows, {}, threads) : std::move(rows);
}

Tensor TransformerStack::final_norm(const TensorView& rows, int threads) const {
  return norm_ ? norm_->forward(rows, {}, threads) : Tensor::copy(rows);
}

void StackCache::reorder(std::span<const std::int64_t> parents) {
  for (TransformerLayerCache& layer : layers) layer.reorder(parents);
}

void StackCache::reorder(std::span<const std::int64_t> parents, std::span<const std::int64_t> lengths) {
  for (TransformerLayerCache& layer : layers) layer.reorder(parents, lengths);
}

void TransformerStack::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  for (std::size_t i = 0; i < layers_.size(); ++i) walk(layers_[i], scope + layer_scope(i));
  walk(norm_, scope + "norm.");
}

}  // namespace qkv
