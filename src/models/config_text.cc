// The texts of the configs of models, and of what they hold.
#include "models/config_text.h"

namespace qkv::inline models {

std::string config_text(const PictureSize& config) { return QKV_CHANGED_FIELDS(PictureSize, config, height, width); }

std::string config_text(const ProjectionBias& config) {
  return QKV_CHANGED_FIELDS(ProjectionBias, config, query, key, value, out);
}

std::string config_text(const AttentionWindow& config) {
  return QKV_CHANGED_FIELDS(AttentionWindow, config, left, right);
}

std::string config_text(const RotaryScaling& config) {
  return QKV_CHANGED_FIELDS(RotaryScaling, config, kind, factor, trained, slow, fast, magnitude, whole);
}

std::string config_text(const RotaryConfig& config) {
  return QKV_CHANGED_FIELDS(RotaryConfig, config, base, pairs, dims, scaling);
}

std::string config_text(const TransformerLayerConfig& config) {
  TransformerLayerConfig own = config;
  own.activation_dropout = true;  // only training depends on it
  return QKV_CHANGED_FIELDS(TransformerLayerConfig, own, model_dim, heads, ff_dim, activation, epsilon, bias,
                            attention_bias, feed_forward_bias, gated, activation_dropout, norm_order, attention_norm,
                            normalization, layer_scale, kv_heads, head_dim, scale, soft_cap, rotary, window,
                            query_key_norm);
}

std::string config_text(const ImageProcessorConfig::Resize& config) {
  return QKV_CHANGED_FIELDS(ImageProcessorConfig::Resize, config, size, shortest_edge, resampling);
}

std::string config_text(const ImageProcessorConfig::Normalize& config) {
  return QKV_CHANGED_FIELDS(ImageProcessorConfig::Normalize, config, mean, deviation);
}

std::string config_text(const ImageProcessorConfig& config) {
  return QKV_CHANGED_FIELDS(ImageProcessorConfig, config, resize, center_crop, rescale_factor, normalize);
}

std::string config_text(const TextEncoderConfig& config) {
  return QKV_CHANGED_FIELDS(TextEncoderConfig, config, vocab, positions, types, model_dim, layers, heads, ff_dim,
                            activation, epsilon, padding, relative_buckets, learnt_positions, each, embedding_dim,
                            shares_layer);
}

std::string config_text(const LanguageModelConfig& config) {
  return QKV_CHANGED_FIELDS(LanguageModelConfig, config, vocab, positions, model_dim, layers, learnt_positions,
                            embedding_scale, tied, output_bias, soft_cap);
}

std::string config_text(const TransformerEncoderDecoderConfig& config) {
  return QKV_CHANGED_FIELDS(TransformerEncoderDecoderConfig, config, kind, vocab, target_vocab, positions, model_dim,
                            encoder_layers, decoder_layers, encoder_heads, decoder_heads, encoder_ff_dim,
                            decoder_ff_dim, activation, norm_order, normalization, position_kind, scale_embedding, end,
                            padding, start);
}

std::string config_text(const VitConfig& config) {
  return QKV_CHANGED_FIELDS(VitConfig, config, kind, picture, patch, channels, model_dim, layers, heads, ff_dim,
                            activation, epsilon, labels);
}

}  // namespace qkv::inline models
