// LanguageModel: random weights, the loss of what follows each token and its gradients, and a Llama's folder.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "core/refuse.h"
#include "layers/basic/affine.h"
#include "layers/basic/rows.h"
#include "models/config_text.h"
#include "models/language/language_kind.h"
#include "models/token_rows.h"
#include "qkv/files.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/models/language_model.h"

namespace qkv {
namespace {

// Sites with their own dropout.
enum class LanguageSite : std::uint32_t { embeddings, layers };

constexpr const char* kLanguageModel = "language_model";

LlamaSizes sizes_of(const LanguageModelConfig& config) {
  const TransformerLayerConfig& layer = config.layers.front();
  return {.vocab = config.vocab,
          .positions = config.positions,
          .model_dim = config.model_dim,
          .layers = std::ssize(config.layers),
          .heads = layer.heads,
          .kv_heads = layer.kv_heads,
          .ff_dim = layer.ff_dim,
          .activation = layer.activation};
}

std::string llama_json(const LanguageModelConfig& config, const LanguageTokens& tokens, Dtype dtype) {
  const TransformerLayerConfig& layer = config.layers.front();
  return nlohmann::ordered_json{{"architectures", {"LlamaForCausalLM"}},
                                {"model_type", "llama"},
                                {"vocab_size", config.vocab},
                                {"max_position_embeddings", config.positions},
                                {"hidden_size", config.model_dim},
                                {"num_hidden_layers", config.layers.size()},
                                {"num_attention_heads", layer.heads},
                                {"num_key_value_heads", layer.kv_heads},
                                {"head_dim", layer.head_dim},
                                {"intermediate_size", layer.ff_dim},
                                {"hidden_act", name_of(layer.activation)},
                                {"rms_norm_eps", layer.epsilon},
                                {"rope_theta", layer.rotary->base},
                                {"attention_bias", false},
                                {"mlp_bias", false},
                                {"tie_word_embeddings", true},
                                {"bos_token_id", tokens.begin},
                                {"eos_token_id", tokens.end},
                                {"pad_token_id", tokens.padding},
                                {"dtype", transformers_dtype(dtype)}}
             .dump(2) +
         "\n";
}

}  // namespace

LanguageModelConfig llama_config(const LlamaSizes& sizes) {
  refuse_unless(sizes.heads > 0 && sizes.model_dim % sizes.heads == 0, kLanguageModel,
                "{} heads must divide model_dim, {}", sizes.heads, sizes.model_dim);
  const TransformerLayerConfig layer{.model_dim = sizes.model_dim,
                                     .heads = sizes.heads,
                                     .ff_dim = sizes.ff_dim,
                                     .activation = sizes.activation,
                                     .attention_bias = {.query = false, .key = false, .value = false, .out = false},
                                     .feed_forward_bias = false,
                                     .gated = true,
                                     .norm_order = NormOrder::pre,
                                     .normalization = Normalization::rms,
                                     .kv_heads = sizes.kv_heads == 0 ? sizes.heads : sizes.kv_heads,
                                     .head_dim = sizes.model_dim / sizes.heads,
                                     .rotary = RotaryConfig()};
  return {.vocab = sizes.vocab,
          .positions = sizes.positions,
          .model_dim = sizes.model_dim,
          .layers = std::vector(static_cast<std::size_t>(sizes.layers), layer)};
}

LanguageModel LanguageModel::initial(const LanguageModelConfig& config, std::uint64_t seed, WeightStorage storage) {
  Weights weights = initial_weights(seed, Dtype::f32, storage);
  return LanguageModel(config, weights);
}

ClassWeights LanguageModel::classes(Tensor& storage) const {
  refuse_unless(config_.tied && config_.soft_cap == 0, kLanguageModel, "a loss needs a tied output without a cap");
  return qkv::classes(embeddings_, {}, storage);
}

LossSum LanguageModel::loss(const TokenLabels& batch) const {
  Tensor unpacked;
  const ClassWeights output = classes(unpacked);
  const auto positions = check_positions(kLanguageModel, batch.ids.size(), batch.offsets, config_.positions);
  const Tensor x = embed(batch.ids, positions);
  const Tensor hidden = layers_.forward({x, batch.offsets}, {.mask = Mask::causal()});
  return cross_entropy(output, hidden, batch.labels);
}

LossSum LanguageModel::backward(const TokenLabels& batch, const LanguageTrainingOptions& options) {
  Tensor unpacked;
  const ClassWeights output = classes(unpacked);
  const auto positions = check_positions(kLanguageModel, batch.ids.size(), batch.offsets, config_.positions);
  const Dropout dropout{.p = options.dropout, .seed = options.seed};
  const auto dropout_of = [&](LanguageSite site) { return dropout_at(dropout, static_cast<std::uint32_t>(site)); };
  const Dropout embedded = dropout_of(LanguageSite::embeddings), in_layers = dropout_of(LanguageSite::layers);
  const MultiHeadAttentionOptions causal{.mask = Mask::causal()};
  Tensor x = embed(batch.ids, positions);
  drop(embedded, x, x, 0);
  const Sequences rows{x, batch.offsets};
  EncoderSaved saved;
  const Tensor hidden = layers_.forward(rows, causal, in_layers, saved);
  Tensor grad_hidden = Tensor::zeros(hidden.shape(), hidden.dtype());
  const LossSum sum = cross_entropy(output, hidden, batch.labels, {.smoothing = options.label_smoothing},
                                    {.hidden = grad_hidden, .weight = gradient_view(embeddings_.weight())});
  Tensor grad = layers_.backward(rows, causal, in_layers, saved, grad_hidden);
  drop(embedded, grad, grad, 0);
  if (positions_) positions_->backward(positions, grad);
  if (config_.embedding_scale != 1) scale_rows(grad, config_.embedding_scale);
  embeddings_.backward(batch.ids, grad);
  return sum;
}

void LanguageModel::save(const std::string& folder, const LanguageTokens& tokens, Dtype dtype) const {
  refuse_unless(config_text(config_) == config_text(llama_config(sizes_of(config_))), kLanguageModel,
                "only a model of llama_config() can be saved");
  TensorNames names(kLlama.prefix);
  names.add("embeddings.weight", {config_.vocab, config_.model_dim}, {kLlama.table});
  kLlama.name(config_, names);
  std::map<std::string, Tensor> theirs;
  visit([&](const std::string& name, const Parameter& own) { names.add_theirs(name, own.value, dtype, theirs); });
  write_file(folder + "/config.json", llama_json(config_, tokens, dtype));
  write_file(folder + "/generation_config.json",
             nlohmann::ordered_json{
                 {"bos_token_id", tokens.begin}, {"eos_token_id", tokens.end}, {"pad_token_id", tokens.padding}}
                     .dump(2) +
                 "\n");
  // Last: a folder that has weights is whole.
  write_safetensors(folder + "/model.safetensors", {.tensors = std::move(theirs), .metadata = {{"format", "pt"}}});
}

}  // namespace qkv
