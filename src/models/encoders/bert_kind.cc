// BERT: the keys of its config.json and the names of its tensors.
#include <fmt/format.h>

#include "models/encoders/encoder_kind.h"

namespace qkv::inline models {
namespace {

constexpr std::string_view kBertPassedOver[] = {"embeddings.position_ids", "pooler.", "cls."};
constexpr FixedKey kBertFixed[] = {
    {"is_decoder", "false"}, {"add_cross_attention", "false"}, {"position_embedding_type", "\"absolute\""}};

constexpr HeadNames kBertHeads[] = {
    {.task = TextTask::masked_word,
     .out = "cls.predictions.decoder",
     .out_bias = "cls.predictions.bias",
     .dense = "cls.predictions.transform.dense",
     .activation = HeadActivation::of_config,
     .norm = "cls.predictions.transform.LayerNorm"},
    {.task = TextTask::sequence_class, .out = "classifier", .dense = "pooler.dense", .dense_is_pooler = true},
    {.task = TextTask::token_class, .out = "classifier"},
    {.task = TextTask::answer, .out = "qa_outputs"}};

}  // namespace

const EncoderKind kBert{
    .read = read_bert, .name = name_bert, .prefix = "bert.", .passed_over = kBertPassedOver, .heads = kBertHeads};

TextEncoderConfig read_bert(const ModelConfig& config) {
  config.expect(kBertFixed);
  TextEncoderConfig bert = read_sizes(config);
  bert.types = config.size("type_vocab_size");
  return bert;
}

TextEncoderConfig read_sizes(const ModelConfig& config, const SizeKeys& keys) {
  return {.vocab = config.size("vocab_size"),
          .positions = config.size("max_position_embeddings"),
          .model_dim = config.size("hidden_size"),
          .layers = config.layers("num_hidden_layers"),
          .heads = config.heads("num_attention_heads", "hidden_size"),
          .ff_dim = config.size("intermediate_size"),
          .activation = config.activation(keys.activation),
          .epsilon = config.epsilon(keys.epsilon)};
}

void name_bert(const TextEncoderConfig& config, TensorNames& names) {
  name_bert(config,
            {.query = "attention.self.query",
             .key = "attention.self.key",
             .value = "attention.self.value",
             .out = "attention.output.dense",
             .norm = "attention.output.LayerNorm"},
            names);
  names.add("embeddings.type.weight", {config.types, config.model_dim}, {"embeddings.token_type_embeddings.weight"});
}

void name_bert(const TextEncoderConfig& config, const AttentionNames& attention, TensorNames& names) {
  const std::int64_t dim = config.model_dim;
  names.add("embeddings.word.weight", {config.vocab, dim}, {"embeddings.word_embeddings.weight"});
  names.add("embeddings.position.weight", {config.position_rows(), dim}, {"embeddings.position_embeddings.weight"});
  names.add_norm("embeddings.norm", "embeddings.LayerNorm", dim);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string to = fmt::format("layers.{}.", i), from = fmt::format("encoder.layer.{}.", i);
    names.add_attention(to + "self_attn", {from + attention.query, from + attention.key, from + attention.value},
                        from + attention.out, dim);
    names.add_norm(to + "norm1", from + attention.norm, dim);
    names.add_linear(to + "linear1", from + "intermediate.dense", config.ff_dim, dim);
    names.add_linear(to + "linear2", from + "output.dense", dim, config.ff_dim);
    names.add_norm(to + "norm2", from + "output.LayerNorm", dim);
  }
}

}  // namespace qkv::inline models
