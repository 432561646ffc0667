// DecoderLayer: forward and backward through its three sublayers, and token by token against cached keys and values.
#include "qkv/layers/decoder_layer.h"

#include <functional>

#include "layers/basic/scoped_observer.h"
#include "layers/heads/head_operands.h"
#include "layers/stack/transformer_layer.h"

namespace qkv {
namespace {

MultiHeadAttentionOptions self_options(const DecoderLayerOptions& options, const Dropout& dropout = {}) {
  return {.mask = options.self_mask,
          .bias = options.self_bias,
          .dropout = dropout_at(dropout, DropoutSite::self_weights),
          .threads = options.threads,
          .stop = options.stop};
}

MultiHeadAttentionOptions memory_options(const DecoderLayerOptions& options, const Dropout& dropout = {}) {
  return {.mask = options.memory_mask,
          .bias = options.memory_bias,
          .dropout = dropout_at(dropout, DropoutSite::memory_weights),
          .threads = options.threads,
          .stop = options.stop};
}

}  // namespace

DecoderLayer::DecoderLayer(const DecoderLayerConfig& config, Weights& weights, const std::string& scope)
    : self_attention_(self_attention_config(config), weights, scope + "self_attn."),
      memory_attention_(attention_config(config), weights, scope + "multihead_attn."),
      feed_forward_(feed_forward_config(config), weights, scope),
      self_residual_(norm_config(config), config.norm_order, weights, scope + "norm1."),
      memory_residual_(norm_config(config), config.norm_order, weights, scope + "norm2."),
      feed_forward_residual_(norm_config(config), config.norm_order, weights, scope + "norm3.") {}

Tensor DecoderLayer::forward(const Sequences& x, const Sequences& memory, const DecoderLayerOptions& options,
                             Observer* observer) const {
  const auto receive = [&](std::string_view name, const Tensor& value) {
    if (observer != nullptr) observer->receive(name, value);
  };
  const auto attend_self = [&](const TensorView& input) {
    return observed(observer, "self.", [&](Observer* scoped) {
      return self_attention_.forward(with_rows(x, input), self_options(options), scoped);
    });
  };
  const auto attend_memory = [&](const TensorView& input) {
    return observed(observer, "memory.", [&](Observer* scoped) {
      return memory_attention_.forward(with_rows(x, input), memory, memory_options(options), scoped);
    });
  };
  const auto feed = [&](const TensorView& input) {
    Tensor fed = feed_forward_.forward(input, options.threads);
    receive("feed_forward", fed);
    return fed;
  };
  const Tensor after_self = self_residual_.forward(x.rows, attend_self, options.threads);
  receive("self_norm", after_self);
  const Tensor after_memory = memory_residual_.forward(after_self, attend_memory, options.threads);
  receive("memory_norm", after_memory);
  Tensor out = feed_forward_residual_.forward(after_memory, feed, options.threads);
  receive("feed_forward_norm", out);
  return out;
}

Tensor DecoderLayer::forward(const Sequences& x, const Sequences& memory, const DecoderLayerOptions& options,
                             const Dropout& dropout, DecoderLayerSaved& saved) const {
  const int threads = options.threads;
  const auto attend_self = [&](const TensorView& input) {
    const Sequences in = with_rows(x, input);
    return self_attention_.forward(in, in, in, self_options(options, dropout), saved.self_attention);
  };
  const auto attend_memory = [&](const TensorView& input) {
    return memory_attention_.forward(with_rows(x, input), memory, memory, memory_options(options, dropout),
                                     saved.memory_attention);
  };
  const auto feed = [&](const TensorView& input) {
    return feed_forward_.forward(input, dropout_at(dropout, DropoutSite::activation), saved.feed_forward, threads);
  };
  saved.after_self = self_residual_.forward(x.rows, attend_self, dropout_at(dropout, DropoutSite::self_residual),
                                            saved.self_residual, threads);
  saved.after_memory =
      memory_residual_.forward(saved.after_self, attend_memory, dropout_at(dropout, DropoutSite::memory_residual),
                               saved.memory_residual, threads);
  return feed_forward_residual_.forward(saved.after_memory, feed,
                                        dropout_at(dropout, DropoutSite::feed_forward_residual),
                                        saved.feed_forward_residual, threads);
}

Tensor DecoderLayer::backward(const Sequences& x, const Sequences& memory, const DecoderLayerOptions& options,
                              const Dropout& dropout, const DecoderLayerSaved& saved, const TensorView& grad_out,
                              const MutableTensorView& grad_memory) {
  const int threads = options.threads;
  const auto feed = [&](const TensorView& input, const TensorView& grad, const MutableTensorView& grad_input) {
    feed_forward_.backward(input, dropout_at(dropout, DropoutSite::activation), saved.feed_forward, grad, grad_input,
                           threads);
  };
  const auto attend_memory = [&](const TensorView& input, const TensorView& grad, const MutableTensorView& grad_input) {
    memory_attention_.backward(with_rows(x, input), memory, memory, memory_options(options, dropout),
                               saved.memory_attention, grad, {grad_input, grad_memory, grad_memory});
  };
  const auto attend_self = [&](const TensorView& input, const TensorView& grad, const MutableTensorView& grad_input) {
    const Sequences in = with_rows(x, input);
    self_attention_.backward(in, in, in, self_options(options, dropout), saved.self_attention, grad,
                             {grad_input, grad_input, grad_input});
  };
  const auto zeros = [&] { return Tensor::zeros(x.rows.shape(), x.rows.dtype()); };
  Tensor after_memory = zeros(), after_self = zeros(), grad_x = zeros();
  feed_forward_residual_.backward(saved.after_memory, feed, dropout_at(dropout, DropoutSite::feed_forward_residual),
                                  saved.feed_forward_residual, grad_out, after_memory, threads);
  memory_residual_.backward(saved.after_self, attend_memory, dropout_at(dropout, DropoutSite::memory_residual),
                            saved.memory_residual, after_memory, after_self, threads);
  self_residual_.backward(x.rows, attend_self, dropout_at(dropout, DropoutSite::self_residual), saved.self_residual,
                          after_self, grad_x, threads);
  return grad_x;
}

void DecoderLayer::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  self_attention_.visit(visitor, scope + "self_attn.");
  memory_attention_.visit(visitor, scope + "multihead_attn.");
  feed_forward_.visit(visitor, scope);
  self_residual_.visit(visitor, scope + "norm1.");
  memory_residual_.visit(visitor, scope + "norm2.");
  feed_forward_residual_.visit(visitor, scope + "norm3.");
}

void DecoderLayer::update(const ParameterUpdater& updater, const std::string& scope) {
  self_attention_.update(updater, scope + "self_attn.");
  memory_attention_.update(updater, scope + "multihead_attn.");
  feed_forward_.update(updater, scope);
  self_residual_.update(updater, scope + "norm1.");
  memory_residual_.update(updater, scope + "norm2.");
  feed_forward_residual_.update(updater, scope + "norm3.");
}

DecoderLayerCache DecoderLayer::make_cache(const Sequences& memory, int threads) const {
  const std::int64_t batch = memory.ragged() ? memory.offsets.size(0) - 1 : batch_and_length(memory)[0];
  DecoderLayerCache cache{self_attention_.make_cache(batch), memory_attention_.make_cache(batch)};
  memory_attention_.append(memory, cache.memory, threads);
  return cache;
}

Tensor DecoderLayer::forward(const TensorView& x, DecoderLayerCache& cache, int threads) const {
  const auto attend_self = [&](const TensorView& input) {
    self_attention_.append(input, cache.self, threads);
    return self_attention_.forward(input, cache.self, {.mask = Mask::causal(Align::bottom_right), .threads = threads});
  };
  const auto attend_memory = [&](const TensorView& input) {
    return memory_attention_.forward(input, cache.memory, {.threads = threads});
  };
  const auto feed = [&](const TensorView& input) { return feed_forward_.forward(input, threads); };
  const Tensor after_self = self_residual_.forward(x, attend_self, threads);
  const Tensor after_memory = memory_residual_.forward(after_self, attend_memory, threads);
  return feed_forward_residual_.forward(after_memory, feed, threads);
}

}  // namespace qkv
