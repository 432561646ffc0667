// The texts of the configs of models, and of what they hold.
#include "models/config_text.h"

namespace qkv::inline models {

std::string config_text(const PictureSize& config) {
  const auto fields = [](const PictureSize& of) {
    const auto& [height, width] = of;
    return std::tie(height, width);
  };
  return changed_fields({"height", "width"}, fields(config), fields({}));
}

std::string config_text(const ProjectionBias& config) {
  const auto fields = [](const ProjectionBias& of) {
    const auto& [query, key, value, out] = of;
    return std::tie(query, key, value, out);
  };
  return changed_fields({"query", "key", "value", "out"}, fields(config), fields({}));
}

std::string config_text(const AttentionWindow& config) {
  const auto fields = [](const AttentionWindow& of) {
    const auto& [left, right] = of;
    return std::tie(left, right);
  };
  return changed_fields({"left", "right"}, fields(config), fields({}));
}

std::string config_text(const RotaryScaling& config) {
  const auto fields = [](const RotaryScaling& of) {
    const auto& [kind, factor, trained, slow, fast, magnitude, whole] = of;
    return std::tie(kind, factor, trained, slow, fast, magnitude, whole);
  };
  return changed_fields({"kind", "factor", "trained", "slow", "fast", "magnitude", "whole"}, fields(config),
                        fields({}));
}

std::string config_text(const RotaryConfig& config) {
  const auto fields = [](const RotaryConfig& of) {
    const auto& [base, pairs, dims, scaling] = of;
    return std::tie(base, pairs, dims, scaling);
  };
  return changed_fields({"base", "pairs", "dims", "scaling"}, fields(config), fields({}));
}

std::string config_text(const TransformerLayerConfig& config) {
  const auto fields = [](const TransformerLayerConfig& of) {
    const auto& [model_dim, heads, ff_dim, activation, epsilon, bias, attention_bias, feed_forward_bias, gated,
                 norm_order, attention_norm, normalization, layer_scale, kv_heads, head_dim, scale, soft_cap, rotary,
                 window, query_key_norm] = of;
    return std::tie(model_dim, heads, ff_dim, activation, epsilon, bias, attention_bias, feed_forward_bias, gated,
                    norm_order, attention_norm, normalization, layer_scale, kv_heads, head_dim, scale, soft_cap, rotary,
                    window, query_key_norm);
  };
  return changed_fields(
      {"model_dim",         "heads", "ff_dim",     "activation",     "epsilon",       "bias",          "attention_bias",
       "feed_forward_bias", "gated", "norm_order", "attention_norm", "normalization", "layer_scale",   "kv_heads",
       "head_dim",          "scale", "soft_cap",   "rotary",         "window",        "query_key_norm"},
      fields(config), fields({}));
}

std::string config_text(const ImageProcessorConfig::Resize& config) {
  const auto fields = [](const ImageProcessorConfig::Resize& of) {
    const auto& [size, shortest_edge, resampling] = of;
    return std::tie(size, shortest_edge, resampling);
  };
  return changed_fields({"size", "shortest_edge", "resampling"}, fields(config), fields({}));
}

std::string config_text(const ImageProcessorConfig::Normalize& config) {
  const auto fields = [](const ImageProcessorConfig::Normalize& of) {
    const auto& [mean, deviation] = of;
    return std::tie(mean, deviation);
  };
  return changed_fields({"mean", "deviation"}, fields(config), fields({}));
}

std::string config_text(const ImageProcessorConfig& config) {
  const auto fields = [](const ImageProcessorConfig& of) {
    const auto& [resize, center_crop, rescale_factor, normalize] = of;
    return std::tie(resize, center_crop, rescale_factor, normalize);
  };
  return changed_fields({"resize", "center_crop", "rescale_factor", "normalize"}, fields(config), fields({}));
}

std::string config_text(const TextEncoderConfig& config) {
  const auto fields = [](const TextEncoderConfig& of) {
    const auto& [vocab, positions, types, model_dim, layers, heads, ff_dim, activation, epsilon, padding,
                 relative_buckets, learnt_positions, each, embedding_dim, shares_layer] = of;
    return std::tie(vocab, positions, types, model_dim, layers, heads, ff_dim, activation, epsilon, padding,
                    relative_buckets, learnt_positions, each, embedding_dim, shares_layer);
  };
  return changed_fields(
      {"vocab", "positions", "types", "model_dim", "layers", "heads", "ff_dim", "activation", "epsilon", "padding",
       "relative_buckets", "learnt_positions", "each", "embedding_dim", "shares_layer"},
      fields(config), fields({}));
}

std::string config_text(const LanguageModelConfig& config) {
  const auto fields = [](const LanguageModelConfig& of) {
    const auto& [vocab, positions, model_dim, layers, learnt_positions, embedding_scale, tied, output_bias, soft_cap] =
        of;
    return std::tie(vocab, positions, model_dim, layers, learnt_positions, embedding_scale, tied, output_bias,
                    soft_cap);
  };
  return changed_fields({"vocab", "positions", "model_dim", "layers", "learnt_positions", "embedding_scale", "tied",
                         "output_bias", "soft_cap"},
                        fields(config), fields({}));
}

std::string config_text(const TransformerEncoderDecoderConfig& config) {
  const auto fields = [](const TransformerEncoderDecoderConfig& of) {
    const auto& [kind, vocab, target_vocab, positions, model_dim, encoder_layers, decoder_layers, encoder_heads,
                 decoder_heads, encoder_ff_dim, decoder_ff_dim, activation, norm_order, normalization, position_kind,
                 scale_embedding, end, padding, start] = of;
    return std::tie(kind, vocab, target_vocab, positions, model_dim, encoder_layers, decoder_layers, encoder_heads,
                    decoder_heads, encoder_ff_dim, decoder_ff_dim, activation, norm_order, normalization, position_kind,
                    scale_embedding, end, padding, start);
  };
  return changed_fields({"kind", "vocab", "target_vocab", "positions", "model_dim", "encoder_layers", "decoder_layers",
                         "encoder_heads", "decoder_heads", "encoder_ff_dim", "decoder_ff_dim", "activation",
                         "norm_order", "normalization", "position_kind", "scale_embedding", "end", "padding", "start"},
                        fields(config), fields({}));
}

std::string config_text(const VitConfig& config) {
  const auto fields = [](const VitConfig& of) {
    const auto& [kind, picture, patch, channels, model_dim, layers, heads, ff_dim, activation, epsilon, labels] = of;
    return std::tie(kind, picture, patch, channels, model_dim, layers, heads, ff_dim, activation, epsilon, labels);
  };
  return changed_fields({"kind", "picture", "patch", "channels", "model_dim", "layers", "heads", "ff_dim", "activation",
                         "epsilon", "labels"},
                        fields(config), fields({}));
}

}  // namespace qkv::inline models
