// EncoderLayer: forward and backward through its two sublayers.
#include "qkv/layers/encoder_layer.h"

#include "layers/stack/transformer_layer.h"

namespace qkv {

EncoderLayer::EncoderLayer(const EncoderLayerConfig& config, Weights& weights, const std::string& scope)
    : self_attention_(self_attention_config(config), weights, scope + "self_attn."),
      feed_forward_(feed_forward_config(config), weights, scope),
      attention_residual_(norm_config(config), config.norm_order, weights, scope + "norm1."),
      feed_forward_residual_(norm_config(config), config.norm_order, weights, scope + "norm2.") {}

Tensor EncoderLayer::forward(const Sequences& x, const MultiHeadAttentionOptions& options, Observer* observer) const {
  const int threads = options.threads;
  const auto attend = [&](const TensorView& input) {
    return self_attention_.forward(with_rows(x, input), options, observer);
  };
  const Tensor middle = attention_residual_.forward(x.rows, attend, threads);
  if (observer != nullptr) observer->receive("attention_norm", middle);
  const auto feed = [&](const TensorView& input) {
    Tensor fed = feed_forward_.forward(input, threads);
    if (observer != nullptr) observer->receive("feed_forward", fed);
    return fed;
  };
  Tensor out = feed_forward_residual_.forward(middle, feed, threads);
  if (observer != nullptr) observer->receive("feed_forward_norm", out);
  return out;
}

Tensor EncoderLayer::forward(const Sequences& x, const MultiHeadAttentionOptions& options, const Dropout& dropout,
                             EncoderLayerSaved& saved) const {
  const int threads = options.threads;
  const auto attend = [&](const TensorView& input) {
    const Sequences in = with_rows(x, input);
    return self_attention_.forward(in, in, in, with_dropout(options, dropout_at(dropout, DropoutSite::self_weights)),
                                   saved.attention);
  };
  const auto feed = [&](const TensorView& input) {
    return feed_forward_.forward(input, dropout_at(dropout, DropoutSite::activation), saved.feed_forward, threads);
  };
  saved.middle = attention_residual_.forward(x.rows, attend, dropout_at(dropout, DropoutSite::self_residual),
                                             saved.attention_residual, threads);
  return feed_forward_residual_.forward(saved.middle, feed, dropout_at(dropout, DropoutSite::feed_forward_residual),
                                        saved.feed_forward_residual, threads);
}

Tensor EncoderLayer::backward(const Sequences& x, const MultiHeadAttentionOptions& options, const Dropout& dropout,
                              const EncoderLayerSaved& saved, const TensorView& grad_out) {
  const int threads = options.threads;
  const auto feed = [&](const TensorView& input, const TensorView& grad, const MutableTensorView& grad_input) {
    feed_forward_.backward(input, dropout_at(dropout, DropoutSite::activation), saved.feed_forward, grad, grad_input,
                           threads);
  };
  const auto attend = [&](const TensorView& input, const TensorView& grad, const MutableTensorView& grad_input) {
    const Sequences in = with_rows(x, input);
    self_attention_.backward(in, in, in, with_dropout(options, dropout_at(dropout, DropoutSite::self_weights)),
                             saved.attention, grad, {grad_input, grad_input, grad_input});
  };
  Tensor grad_middle = Tensor::zeros(saved.middle.shape(), saved.middle.dtype());
  feed_forward_residual_.backward(saved.middle, feed, dropout_at(dropout, DropoutSite::feed_forward_residual),
                                  saved.feed_forward_residual, grad_out, grad_middle, threads);
  Tensor grad_x = Tensor::zeros(x.rows.shape(), x.rows.dtype());
  attention_residual_.backward(x.rows, attend, dropout_at(dropout, DropoutSite::self_residual),
                               saved.attention_residual, grad_middle, grad_x, threads);
  return grad_x;
}

void EncoderLayer::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  self_attention_.visit(visitor, scope + "self_attn.");
  feed_forward_.visit(visitor, scope);
  attention_residual_.visit(visitor, scope + "norm1.");
  feed_forward_residual_.visit(visitor, scope + "norm2.");
}

void EncoderLayer::update(const ParameterUpdater& updater, const std::string& scope) {
  self_attention_.update(updater, scope + "self_attn.");
  feed_forward_.update(updater, scope);
  attention_residual_.update(updater, scope + "norm1.");
  feed_forward_residual_.update(updater, scope + "norm2.");
}

}  // namespace qkv
