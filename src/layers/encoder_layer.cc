#include "qkv/encoder_layer.h"

namespace qkv {

EncoderLayer::EncoderLayer(const EncoderLayerConfig& config, Weights& weights, const std::string& scope)
    : self_attention_({.model_dim = config.model_dim, .heads = config.heads, .bias = config.bias}, weights,
                      scope + "self_attn."),
      feed_forward_({.model_dim = config.model_dim,
                     .ff_dim = config.ff_dim,
                     .activation = config.activation,
                     .bias = config.bias},
                    weights, scope),
      attention_norm_({.dim = config.model_dim, .epsilon = config.epsilon, .bias = config.bias}, weights,
                      scope + "norm1."),
      feed_forward_norm_({.dim = config.model_dim, .epsilon = config.epsilon, .bias = config.bias}, weights,
                         scope + "norm2.") {}

Tensor EncoderLayer::forward(const Sequences& x, const MultiHeadAttentionOptions& options, Observer* observer) const {
  const Tensor attended = self_attention_.forward(x, options, observer);
  const Tensor middle = attention_norm_.forward(attended, x.rows, options.threads);
  const Tensor fed = feed_forward_.forward(middle, options.threads);
  Tensor out = feed_forward_norm_.forward(fed, middle, options.threads);
  if (observer != nullptr) {
    observer->receive("attention_norm", middle);
    observer->receive("feed_forward", fed);
    observer->receive("feed_forward_norm", out);
  }
  return out;
}

void EncoderLayer::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  self_attention_.visit(visitor, scope + "self_attn.");
  feed_forward_.visit(visitor, scope);
  attention_norm_.visit(visitor, scope + "norm1.");
  feed_forward_norm_.visit(visitor, scope + "norm2.");
}

void EncoderLayer::update(const ParameterUpdater& updater, const std::string& scope) {
  self_attention_.update(updater, scope + "self_attn.");
  feed_forward_.update(updater, scope);
  attention_norm_.update(updater, scope + "norm1.");
  feed_forward_norm_.update(updater, scope + "norm2.");
}

}  // namespace qkv
