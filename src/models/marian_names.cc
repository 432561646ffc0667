// Lists the tensors of a Marian model with their names here and in its folder.
#include "models/marian_names.h"

#include <fmt/format.h>

namespace qkv {
namespace {

class Names {
 public:
  Names(const MarianConfig& config, const std::string& prefix)
      : has_norm_bias_(config.normalization == Normalization::layer) {
    const std::int64_t dim = config.model_dim;
    if (config.target_vocab == 0) add("shared.weight", {config.vocab, dim}, {prefix + "shared.weight"});
    for (const std::string side : {"encoder.", "decoder."}) {
      const std::string from = prefix + side;
      if (config.target_vocab > 0) {
        const std::int64_t vocab = side == "encoder." ? config.vocab : config.target_vocab;
        add(side + kTable + "weight", {vocab, dim}, {from + "embed_tokens.weight"});
      }
      if (config.norm_order == NormOrder::pre) add_norm(side + "norm", from + "layer_norm", dim);
      if (config.kind == MarianKind::marian) continue;
      if (config.position_kind == MarianPositions::of_kind) {
        add(side + kPositions + "weight", {config.positions + kReservedPositions, dim},
            {from + "embed_positions.weight"});
      }
      add_norm(side + "embedding_norm", from + "layernorm_embedding", dim);
    }
    for (std::int64_t i = 0; i < config.encoder_layers; ++i) {
      const std::string to = fmt::format("encoder.layers.{}.", i), from = prefix + to;
      add_attention(to + "self_attn", from + "self_attn", dim);
      add_norm(to + "norm1", from + "self_attn_layer_norm", dim);
      add_feed_forward(to, from, dim, config.encoder_ff_dim);
      add_norm(to + "norm2", from + "final_layer_norm", dim);
    }
    for (std::int64_t i = 0; i < config.decoder_layers; ++i) {
      const std::string to = fmt::format("decoder.layers.{}.", i), from = prefix + to;
      add_attention(to + "self_attn", from + "self_attn", dim);
      add_norm(to + "norm1", from + "self_attn_layer_norm", dim);
      add_attention(to + "multihead_attn", from + "encoder_attn", dim);
      add_norm(to + "norm2", from + "encoder_attn_layer_norm", dim);
      add_feed_forward(to, from, dim, config.decoder_ff_dim);
      add_norm(to + "norm3", from + "final_layer_norm", dim);
    }
  }
  std::vector<TensorName> take() { return std::move(all_); }

 private:
  void add(std::string ours, Dims shape, std::vector<std::string> theirs) {
    all_.push_back({std::move(ours), shape, std::move(theirs)});
  }
  void add_norm(const std::string& ours, const std::string& theirs, std::int64_t dim) {
    add(ours + ".weight", {dim}, {theirs + ".weight"});
    if (has_norm_bias_) add(ours + ".bias", {dim}, {theirs + ".bias"});
  }
  void add_linear(const std::string& ours, const std::string& theirs, std::int64_t out, std::int64_t in) {
    add(ours + ".weight", {out, in}, {theirs + ".weight"});
    add(ours + ".bias", {out}, {theirs + ".bias"});
  }
  void add_attention(const std::string& ours, const std::string& theirs, std::int64_t dim) {
    const auto roles = [&](const std::string& part) {
      return std::vector<std::string>{theirs + ".q_proj" + part, theirs + ".k_proj" + part, theirs + ".v_proj" + part};
    };
    add(ours + ".in_proj_weight", {3 * dim, dim}, roles(".weight"));
    add(ours + ".in_proj_bias", {3 * dim}, roles(".bias"));
    add_linear(ours + ".out_proj", theirs + ".out_proj", dim, dim);
  }
  void add_feed_forward(const std::string& ours, const std::string& theirs, std::int64_t dim, std::int64_t ff_dim) {
    add_linear(ours + "linear1", theirs + "fc1", ff_dim, dim);
    add_linear(ours + "linear2", theirs + "fc2", dim, ff_dim);
  }

  const bool has_norm_bias_;
  std::vector<TensorName> all_;
};

}  // namespace

std::vector<TensorName> marian_names(const MarianConfig& config, const std::string& prefix) {
  return Names(config, prefix).take();
}

}  // namespace qkv
