/// \file
/// Decoder-only Transformers: embeddings (with positions, if these are learnt), layers in which a token attends to
/// itself and to those before it, a final norm, and an output over the vocabulary. Reads the Hugging Face folders of
/// GPT-2, GPT-NeoX, Llama, Mistral, Phi-3, Qwen2, Qwen3, Gemma 2 and Gemma 3. Source: Radford et al., "Language models
/// are unsupervised multitask learners" (2019).
///
///     LanguageModel model = LanguageModel::load("smollm2");
///     Tensor logits = model.logits(sequences);                       // of all tokens, [tokens, vocab]
///     std::unique_ptr<NextTokens> next = model.next_tokens(prompts);  // for generate() (generate.h)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/decode/generate.h"
#include "qkv/dtype.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/embedding.h"
#include "qkv/layers/linear.h"
#include "qkv/layers/transformer.h"
#include "qkv/models/token_labels.h"
#include "qkv/models/trainable.h"
#include "qkv/observer.h"

namespace qkv {

struct LanguageModelConfig {
  std::int64_t vocab = 0;
  std::int64_t positions = 0;  ///< the longest sequence
  std::int64_t model_dim = 0;
  std::vector<TransformerLayerConfig> layers{};  ///< of each; all of this model_dim
  bool learnt_positions = false;                 ///< a row for each position is added to the embeddings
  double embedding_scale = 1;                    ///< embeddings, without positions, are multiplied by it
  bool tied = true;                              ///< the output is the table of embeddings, transposed
  bool output_bias = false;                      ///< not tied
  double soft_cap = 0;                           ///< of logits: cap * tanh(logits / cap); 0: off
};

/// The sizes of a Llama: a pre-norm layer of RMS norms with rotary positions and a gated feed-forward, without biases,
/// so many times, and a tied output.
struct LlamaSizes {
  std::int64_t vocab = 0;
  std::int64_t positions = 0;
  std::int64_t model_dim = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  std::int64_t ff_dim = 0;
  Activation activation = Activation::silu;
};
QKV_API LanguageModelConfig llama_config(const LlamaSizes& sizes);

struct LanguageModelOptions {
  std::span<const Mask> masks{};  ///< additional masks, one for each layer; empty: none
  int threads = 0;                ///< 0: threads()
  std::stop_token stop{};
};

struct LanguageTrainingOptions {
  double dropout = 0;          ///< everywhere: embeddings, weights of attention, sublayers, activations
  double label_smoothing = 0;  ///< spread evenly over the vocabulary
  std::uint64_t seed = 0;      ///< of dropout
};

/// Tokens that config.json and generation_config.json name.
struct LanguageTokens {
  std::int32_t begin = 0, end = 0, padding = 0;
};

struct LayerHead {
  std::int64_t layer = 0, head = 0;  ///< from 0
  bool operator==(const LayerHead&) const = default;
};

/// How prompts are read. The bits of what follows do not depend on it.
struct PromptOptions {
  /// Tokens of each prompt to read at once, so that a long one takes less memory; at least 2, and a single one left
  /// over joins the chunk before it. 0: all.
  std::int64_t chunk = 0;
  /// Called for each of these heads by the pass that reads a prompt's last token or a new token, with its weights, the
  /// last one for itself. `prompt`: of the row; `head`: by its number in the list.
  std::vector<LayerHead> heads{};
  std::function<void(std::size_t prompt, std::size_t head, std::span<const float> weights)> on_weights{};
  /// For one prompt, from make_cache(): holds a proper prefix of it, and then receives what follows, including rejected
  /// drafts. It must outlive its users.
  StackCache* cache = nullptr;
  Dtype cache_type = Dtype::f32;  ///< of keys, values and queries without such a cache; bf16 and f16 round them
  int threads = 0;                ///< 0: threads()
  std::stop_token stop{};
};

/// Safe for concurrent calls of const members; only update() modifies it.
class QKV_API LanguageModel : public Parameterized {
 public:
  using Prompts = std::span<const std::vector<std::int32_t>>;

  /// Whether config.json of that folder names a kind of decoder-only model that is read here. FormatError or IoError if
  /// it cannot be read.
  static bool is_in(const std::string& folder);
  /// `folder` holds config.json, whose model_type is one of the kinds above, and model.safetensors or the files that
  /// its index names, in f32, f16 or bf16; or it is a GGUF file (llama, qwen2, qwen3; its name ends with ".gguf"), read
  /// as the folder that `qkv convert` would write. FormatError, naming the file and what is wrong, for anything that is
  /// missing, superfluous, of another shape or not supported. Matrices are kept as `storage` says (matmul.h).
  static LanguageModel load(const std::string& folder, WeightStorage storage = WeightStorage::full);
  /// What its config.json says.
  static LanguageModelConfig read_config(const std::string& folder);
  /// The same, after checking the names, shapes and types of all weights without reading them, so that a folder can be
  /// refused before load() fills the memory.
  static LanguageModelConfig check(const std::string& folder);

  /// Takes embeddings.weight [vocab, model_dim], positions.weight [positions, model_dim] if they are learnt, layers.N.*
  /// (transformer_layer.h), norm.*, and output.weight [vocab, model_dim] unless it is tied, with output.bias.
  LanguageModel(const LanguageModelConfig& config, Weights& weights);

  /// For all sequences, one after the other: the hidden states after the final norm [tokens, model_dim], and the logits
  /// [tokens, vocab] of the token after each. std::invalid_argument if an id is not in the table or a sequence is too
  /// long. The observer receives "embeddings" (the input of the layers), then what transformer.h names.
  Tensor hidden(Prompts sequences, const LanguageModelOptions& options = {}, Observer* observer = nullptr) const;
  Tensor logits(Prompts sequences, const LanguageModelOptions& options = {}, Observer* observer = nullptr) const;

  /// The logits [n, vocab] of rows [n, model_dim] that hidden() gave.
  Tensor project(const TensorView& hidden, int threads = 0) const;

  /// The model's prediction if these were its last hidden states: final norm and output of rows [n, model_dim], as the
  /// observer receives them from a layer ("layers.N.feed_forward_norm"), as logits [n, vocab]. Source: nostalgebraist,
  /// "interpreting GPT: the logit lens" (2020).
  Tensor read_out(const TensorView& rows, const LanguageModelOptions& options = {}) const;

  /// The backward pass from minus the log-probability of `next` after the first `behind` (1 or more) tokens of a
  /// sequence; the observer receives "layers.N.heads_gradient" (multi_head_attention.h). std::invalid_argument as
  /// above.
  void observe_gradients(std::span<const std::int32_t> sequence, std::int64_t behind, std::int32_t next,
                         Observer& observer) const;

  /// Random weights (initial_weights.h).
  static LanguageModel initial(const LanguageModelConfig& config, std::uint64_t seed,
                               WeightStorage storage = WeightStorage::full);
  /// As in trainable.h: the cross-entropy of what follows each token. std::invalid_argument as above, and unless the
  /// output is tied and without a cap.
  LossSum loss(const TokenLabels& batch) const;
  LossSum backward(const TokenLabels& batch, const LanguageTrainingOptions& options);
  /// Writes config.json, generation_config.json and model.safetensors, the weights as `dtype`, as transformers'
  /// LlamaForCausalLM opens them. std::invalid_argument unless the config is one of llama_config().
  void save(const std::string& folder, const LanguageTokens& tokens, Dtype dtype = Dtype::f32) const;

  /// The continuations of these prompts, for generate(); the first step gives the logits after each prompt. A prompt is
  /// read when it begins; a common beginning of 16 tokens or more is read once. std::invalid_argument as above, for an
  /// empty prompt, for heads that do not exist, and for a cache that does not match. The model must outlive it.
  std::unique_ptr<NextTokens> next_tokens(Prompts prompts, const PromptOptions& options = {}) const;
  /// An empty cache for one prompt.
  StackCache make_cache(Dtype type = Dtype::f32) const { return layers_.make_cache(1, type); }

  const LanguageModelConfig& config() const { return config_; }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;

  class Continuation;

  /// The output's part of a loss; refuses what loss() refuses.
  ClassWeights classes(Tensor& storage) const;
  /// Embeddings of ids at these positions.
  Tensor embed(std::span<const std::int32_t> ids, std::span<const std::int32_t> positions) const;

  LanguageModelConfig config_;
  Embedding embeddings_;
  std::optional<Embedding> positions_;
  Encoder layers_;
  std::optional<Linear> output_;  ///< none: it is tied
};

}  // namespace qkv
