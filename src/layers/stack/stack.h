// Forward and backward through a stack of encoder or decoder layers.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "layers/basic/scoped_observer.h"
#include "qkv/layers/transformer.h"

namespace qkv {

inline std::string layer_scope(std::size_t layer) { return fmt::format("layers.{}.", layer); }

template <class Layer>
std::vector<Layer> make_layers(const StackConfig& config, Weights& weights, const std::string& scope) {
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    layers.emplace_back(config.layer, weights, scope + layer_scope(static_cast<std::size_t>(i)));
  }
  return layers;
}

std::optional<LayerNorm> make_norm(const StackConfig& config, Weights& weights, const std::string& scope);

// run(layer, input, observer) for each layer.
template <class Layer, class Run>
Tensor stack_forward(const std::vector<Layer>& layers, const std::optional<LayerNorm>& norm, const TensorView& x,
                     int threads, Observer* observer, const Run& run) {
  Tensor last;
  TensorView input = x;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    last = observed(observer, layer_scope(i), [&](Observer* scoped) { return run(layers[i], input, scoped); });
    input = last;
  }
  if (!norm) return layers.empty() ? Tensor::copy(x) : std::move(last);
  last = norm->forward(input, {}, threads);
  if (observer != nullptr) observer->receive("norm", last);
  return last;
}

// run(layer, i, input, saved layer) for each layer.
template <class Layer, class Saved, class Run>
Tensor stack_forward(const std::vector<Layer>& layers, const std::optional<LayerNorm>& norm, const TensorView& x,
                     int threads, Saved& saved, const Run& run) {
  saved.layers.clear();
  saved.layers.resize(layers.size());
  saved.between.clear();
  TensorView input = x;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Tensor out = run(layers[i], i, input, saved.layers[i]);
    if (i + 1 == layers.size() && !norm) return out;
    input = saved.between.emplace_back(std::move(out));
  }
  return norm ? norm->forward(input, {}, threads) : Tensor::copy(x);
}

// run(layer, i, input, saved layer, gradient of the output) returns that of the input.
template <class Layer, class Saved, class Run>
Tensor stack_backward(std::vector<Layer>& layers, std::optional<LayerNorm>& norm, const TensorView& x, int threads,
                      const Saved& saved, const TensorView& grad_out, const Run& run) {
  const auto input_of = [&](std::size_t i) { return i == 0 ? x : saved.between[i - 1].view(); };
  Tensor gradient;
  if (norm) {
    gradient = Tensor::zeros(x.shape(), x.dtype());
    norm->backward(input_of(layers.size()), grad_out, gradient, threads);
  } else {
    gradient = Tensor::copy(grad_out);
  }
  for (std::size_t i = layers.size(); i-- > 0;) gradient = run(layers[i], i, input_of(i), saved.layers[i], gradient);
  return gradient;
}

template <class Layer>
void visit_stack(const std::vector<Layer>& layers, const std::optional<LayerNorm>& norm,
                 const ParameterVisitor& visitor, const std::string& scope) {
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].visit(visitor, scope + layer_scope(i));
  if (norm) norm->visit(visitor, scope + "norm.");
}

template <class Layer>
void update_stack(std::vector<Layer>& layers, std::optional<LayerNorm>& norm, const ParameterUpdater& updater,
                  const std::string& scope) {
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].update(updater, scope + layer_scope(i));
  if (norm) norm->update(updater, scope + "norm.");
}

}  // namespace qkv
