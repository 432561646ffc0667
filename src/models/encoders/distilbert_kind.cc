// DistilBERT: BERT without types of tokens, under names of its own. Source: Sanh et al., "DistilBERT" (2019).
#include <fmt/format.h>

#include "models/encoders/encoder_kind.h"

namespace qkv::inline models {
namespace {

constexpr std::string_view kDistilBertPassedOver[] = {"vocab_transform.", "vocab_layer_norm.", "vocab_projector."};

constexpr HeadNames kDistilBertHeads[] = {{.task = TextTask::masked_word,
                                           .out = "vocab_projector",
                                           .out_bias = "vocab_projector.bias",
                                           .dense = "vocab_transform",
                                           .activation = HeadActivation::of_config,
                                           .norm = "vocab_layer_norm"},
                                          {.task = TextTask::sequence_class,
                                           .out = "classifier",
                                           .dense = "pre_classifier",
                                           .activation = HeadActivation::relu},
                                          {.task = TextTask::token_class, .out = "classifier"},
                                          {.task = TextTask::answer, .out = "qa_outputs"}};

TextEncoderConfig read_distilbert(const ModelConfig& config) {
  config.expect({});
  return {.vocab = config.size("vocab_size"),
          .positions = config.size("max_position_embeddings"),
          .types = 0,
          .model_dim = config.size("dim"),
          .layers = config.layers("n_layers"),
          .heads = config.heads("n_heads", "dim"),
          .ff_dim = config.size("hidden_dim"),
          .activation = config.activation("activation"),
          .epsilon = 1e-12};
}

void name_distilbert(const TextEncoderConfig& config, TensorNames& names) {
  const std::int64_t dim = config.model_dim;
  names.add("embeddings.word.weight", {config.vocab, dim}, {"embeddings.word_embeddings.weight"});
  names.add("embeddings.position.weight", {config.positions, dim}, {"embeddings.position_embeddings.weight"});
  names.add_norm("embeddings.norm", "embeddings.LayerNorm", dim);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string to = fmt::format("layers.{}.", i), from = fmt::format("transformer.layer.{}.", i);
    const std::string self = from + "attention.";
    names.add_attention(to + "self_attn", {self + "q_lin", self + "k_lin", self + "v_lin"}, self + "out_lin", dim);
    names.add_norm(to + "norm1", from + "sa_layer_norm", dim);
    names.add_linear(to + "linear1", from + "ffn.lin1", config.ff_dim, dim);
    names.add_linear(to + "linear2", from + "ffn.lin2", dim, config.ff_dim);
    names.add_norm(to + "norm2", from + "output_layer_norm", dim);
  }
}

}  // namespace

const EncoderKind kDistilBert{.read = read_distilbert,
                              .name = name_distilbert,
                              .prefix = "distilbert.",
                              .passed_over = kDistilBertPassedOver,
                              .heads = kDistilBertHeads};

}  // namespace qkv::inline models
