// ALBERT: BERT whose layers are one, over and over, and whose embeddings are narrower than its layers. Source: Lan et
// al., "ALBERT: A lite BERT" (2019).
#include "models/encoders/encoder_kind.h"

namespace qkv::inline models {
namespace {

constexpr std::string_view kAlbertPassedOver[] = {"embeddings.position_ids", "pooler.", "predictions.",
                                                  "sop_classifier."};
constexpr FixedKey kAlbertFixed[] = {
    {"num_hidden_groups", "1"}, {"inner_group_num", "1"}, {"position_embedding_type", "\"absolute\""}};

constexpr HeadNames kAlbertHeads[] = {
    {.task = TextTask::masked_word,
     .out = "predictions.decoder",
     .out_bias = "predictions.bias",
     .dense = "predictions.dense",
     .activation = HeadActivation::of_config,
     .norm = "predictions.LayerNorm"},
    {.task = TextTask::sequence_class, .out = "classifier", .dense = "pooler", .dense_is_pooler = true},
    {.task = TextTask::token_class, .out = "classifier"},
    {.task = TextTask::answer, .out = "qa_outputs"}};

TextEncoderConfig read_albert(const ModelConfig& config) {
  config.expect(kAlbertFixed);
  TextEncoderConfig albert = read_sizes(config);
  albert.types = config.size("type_vocab_size");
  albert.embedding_dim = config.size("embedding_size");
  albert.shares_layer = true;
  return albert;
}

void name_albert(const TextEncoderConfig& config, TensorNames& names) {
  const std::int64_t dim = config.model_dim, narrow = config.embedding_dim;
  const std::string to = "layers.0.", from = "encoder.albert_layer_groups.0.albert_layers.0.",
                    self = from + "attention.";
  names.add("embeddings.word.weight", {config.vocab, narrow}, {"embeddings.word_embeddings.weight"});
  names.add("embeddings.position.weight", {config.positions, narrow}, {"embeddings.position_embeddings.weight"});
  names.add("embeddings.type.weight", {config.types, narrow}, {"embeddings.token_type_embeddings.weight"});
  names.add_norm("embeddings.norm", "embeddings.LayerNorm", narrow);
  names.add_linear("embeddings.projection", "encoder.embedding_hidden_mapping_in", dim, narrow);
  names.add_attention(to + "self_attn", {self + "query", self + "key", self + "value"}, self + "dense", dim);
  names.add_norm(to + "norm1", self + "LayerNorm", dim);
  names.add_linear(to + "linear1", from + "ffn", config.ff_dim, dim);
  names.add_linear(to + "linear2", from + "ffn_output", dim, config.ff_dim);
  names.add_norm(to + "norm2", from + "full_layer_layer_norm", dim);
}

}  // namespace

const EncoderKind kAlbert{.read = read_albert,
                          .name = name_albert,
                          .prefix = "albert.",
                          .passed_over = kAlbertPassedOver,
                          .heads = kAlbertHeads};

}  // namespace qkv::inline models
