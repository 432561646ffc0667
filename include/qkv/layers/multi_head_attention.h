/// \file
/// Many attentions side by side: project to heads, attend, merge, project out. The semantics of
/// torch.nn.MultiheadAttention, but for masks, which are ours (true = may attend; torch_masks.h converts), and for rows
/// that see no key, which are 0 before the output projection, with or without weights, unless empty_rows is nan.
/// Source: Vaswani et al., "Attention is all you need" (2017), section 3.2.2.
///
///     MultiHeadAttention layer({.model_dim = 512, .heads = 8}, weights);
///     Tensor y = layer.forward(x, {.mask = Mask::causal()});                    // self-attention
///     Tensor z = layer.forward(x, memory, {.mask = Mask::lengths(n)}, &observer);
///
/// Inputs: [batch, length, dim], [length, dim], or ragged (sequences.h), queries and memory alike; f32 or f64 like the
/// weights. The output has the shape of the queries, with out_dim last.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/attention/bias.h"
#include "qkv/attention/dropout.h"
#include "qkv/attention/empty_rows.h"
#include "qkv/attention/key_value_cache.h"
#include "qkv/attention/mask.h"
#include "qkv/layers/layer_norm.h"
#include "qkv/layers/linear.h"
#include "qkv/layers/packed_parameter.h"
#include "qkv/layers/parameter.h"
#include "qkv/layers/positions.h"
#include "qkv/layers/row_blocks.h"
#include "qkv/layers/sequences.h"
#include "qkv/layers/weights.h"
#include "qkv/observer.h"

namespace qkv {

/// How the projection of rows [n, in] to all heads at once, [n, heads * head_dim], is made. The three can express the
/// same; head h owns columns h * head_dim and following.
///   packed     one matrix [heads * head_dim, in], split among the heads logically
///   per_head   a matrix for each head: [heads, head_dim, in]
///   two_stage  a shared matrix [shared_dim, in], then one for each head: [heads, head_dim, shared_dim]
enum class HeadScheme { packed, per_head, two_stage };

/// Which projections have a bias.
struct ProjectionBias {
  bool query = true, key = true, value = true, out = true;
};

/// Keys p - left <= j <= p + right, with positions as in mask.h; -1 leaves that side open.
struct AttentionWindow {
  std::int64_t left = -1, right = -1;
};

/// Parameters, with inner = heads * head_dim, for keys and values kv_heads * head_dim:
///   packed: in_proj_weight [the three inner, model_dim] if all inputs have this size, else q_proj_weight [inner,
///     model_dim], k_proj_weight and v_proj_weight; in_proj_bias [the inner of those that have a bias]
///     per_head, two_stage, with ROLE one of query, key and value: ROLE.weight [heads, head_dim, ...],
///       ROLE.bias [heads, head_dim]; two_stage also ROLE.shared_weight [inner, ...], ROLE.shared_bias [inner]
///     bias_k and bias_v [1, 1, inner]; with query_key_norm q_norm.weight and k_norm.weight [head_dim]; out_proj.weight
///     [out_dim, inner], out_proj.bias [out_dim]
struct MultiHeadAttentionConfig {
  std::int64_t model_dim = 0;  ///< size of the queries
  std::int64_t heads = 1;
  /// Heads of keys and values, which divide `heads`: query head h uses h / (heads / kv_heads). 0: heads. Source:
  /// Ainslie et al., "GQA" (2023).
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;         ///< query, key and value of one head; 0: model_dim / heads
  std::int64_t key_input_dim = 0;    ///< size of the inputs that keys are projected from; 0: model_dim
  std::int64_t value_input_dim = 0;  ///< the same for values
  std::int64_t out_dim = 0;          ///< 0: model_dim
  bool bias = true;                  ///< in those projections that projection_bias names
  ProjectionBias projection_bias{};
  bool bias_kv = false;         ///< a learnt key and value that every query sees
  bool zero_attention = false;  ///< a key and value of zeros that every query sees
  HeadScheme scheme = HeadScheme::packed;
  /// Projected queries and keys are rotated by their positions (positions.h): row i of a sequence has position i, after
  /// a cache the number of cached keys plus i. Needs an even head_dim; not together with bias_kv and zero_attention,
  /// whose keys have no position, nor, without a cache, with Align::bottom_right.
  std::optional<RotaryConfig> rotary{};
  std::optional<double> scale{};            ///< of the logits (attention.h); unset: 1 / sqrt(head_dim)
  double soft_cap = 0;                      ///< of the logits (attention.h); 0: off
  std::optional<AttentionWindow> window{};  ///< goes with every mask of a call; not with bias_kv and zero_attention
  /// The projected query and key of each head pass through an RMS norm (layer_norm.h) with this epsilon before they
  /// rotate. Source: Dehghani et al., "Scaling vision transformers to 22 billion parameters" (2023).
  std::optional<double> query_key_norm{};
};

struct MultiHeadAttentionOptions {
  Mask mask{};  ///< over the keys given; the extra ones of bias_kv and zero_attention are always seen
  Bias bias{};
  /// Optional outputs; k_len counts the extra keys, which come last. Ragged: [query tokens, heads, k_len of the
  /// longest sequence] and [query tokens, k_len].
  MutableTensorView weights{};       ///< [batch, heads, q_len, k_len]
  MutableTensorView mean_weights{};  ///< [batch, q_len, k_len]: the mean over the heads
  Dropout dropout{};                 ///< of the weights, in training
  /// For a query that sees no key: 0 before the output projection; nan: NaN, also in its weights, as in torch with
  /// weights; without a backward pass.
  EmptyRows empty_rows = EmptyRows::zero;
  /// For backward: adds the gradient of the bias's table here, in its shape; the bias must have one.
  MutableTensorView table_gradient{};
  int threads = 0;  ///< 0: threads()
  std::stop_token stop{};
};

/// What backward needs of a forward pass.
struct MultiHeadAttentionSaved {
  Tensor query_before_norm{}, key_before_norm{};  ///< if these are normed
  Tensor query{}, key{}, value{};                 ///< projected rows [n, heads * head_dim], as attention takes them
  Tensor merged{}, log_sum_exp{};
};

/// Optional outputs in the inputs' shapes, which are added to; omitted ones cost nothing. Self-attention passes the
/// same view three times.
struct MultiHeadAttentionGradients {
  MutableTensorView query{}, key{}, value{};
};

class RotaryAngles;
struct RotaryRows;
struct HeadAttention;
struct HeadGradients;
struct HeadLayout;
struct HeadWeights;

/// Optional output of attention to a cache: the weights of the last query of each sequence that has any.
struct LastWeights {
  std::vector<std::int64_t> heads{};  ///< wanted; none: nothing is computed
  Tensor weights{};  ///< [sequences with queries x heads, keys of the longest], 0 where there is no key
};

/// How the queries of a sequence over a cache are computed: together, or each as if it were the last one, with the bits
/// of one after the other, up to 4 units apart.
enum class CacheQueries { together, singly };

/// Safe for concurrent forward(); only update() and backward() modify it.
class QKV_API MultiHeadAttention : public Parameterized {
 public:
  MultiHeadAttention(const MultiHeadAttentionConfig& config, Weights& weights, const std::string& scope = "");

  Tensor forward(const Sequences& x, const MultiHeadAttentionOptions& options = {}, Observer* observer = nullptr) const;
  Tensor forward(const Sequences& query, const Sequences& memory, const MultiHeadAttentionOptions& options = {},
                 Observer* observer = nullptr) const;
  /// The observer receives out_weight (W_O, [out_dim, heads * head_dim]), query, key (rotated, if rotary), value (split
  /// into heads: [batch, heads or kv_heads, length, head_dim]), extra_key, extra_value ([extra keys, kv_heads,
  /// head_dim]) if there are any, logits, weights ([batch, heads, q_len, k_len], each if it wants it), heads (each
  /// head's output, [batch, heads, q_len, head_dim]), merged and output. Ragged: [tokens, heads,
  /// ...].
  Tensor forward(const Sequences& query, const Sequences& key, const Sequences& value,
                 const MultiHeadAttentionOptions& options = {}, Observer* observer = nullptr) const;
  /// Queries pass through `norm` first, if given; without a memory keys and values come from the same rows. In blocks
  /// (row_blocks.h): long sequences hold only the queries, overwritten by the outputs, and the keys and values of some
  /// heads, 6 MiB or one head's, unless the observer, a bias, or a mask of single pairs needs all heads, or weights are
  /// not in full storage.
  void forward(const Sequences& query, const LayerNorm* norm, const std::optional<Sequences>& memory,
               const MultiHeadAttentionOptions& options, Observer* observer, const RowSink& put) const;

  /// For generating: the projected keys and values of the tokens so far are kept (key_value_cache.h).
  ///   layer.append(x, cache); y = layer.forward(x, cache);   // self-attention of new tokens x
  /// Queries have the last cached positions, as key_value_cache.h says.
  /// With a cache there are no dropout, no weights (of the options: but `last`), no bias_kv and no zero_attention.
  /// `singly` needs ragged queries; each of them counts as the last one of a sequence then.
  KeyValueCache make_cache(std::int64_t batch,
                           std::optional<Dtype> dtype = {}) const;  ///< default: the type of the weights
  void append(const Sequences& memory, KeyValueCache& cache, int threads = 0) const;
  Tensor forward(const Sequences& query, const KeyValueCache& cache, const MultiHeadAttentionOptions& options = {},
                 LastWeights* last = nullptr, CacheQueries queries = CacheQueries::together) const;

  /// The same as forward, for training.
  Tensor forward(const Sequences& query, const Sequences& key, const Sequences& value,
                 const MultiHeadAttentionOptions& options, MultiHeadAttentionSaved& saved) const;
  /// With the same inputs and options, and the gradient of the output: adds to the gradients of the parameters that
  /// want them, and to the views given. The observer receives heads_gradient, the gradient of forward()'s heads.
  void backward(const Sequences& query, const Sequences& key, const Sequences& value,
                const MultiHeadAttentionOptions& options, const MultiHeadAttentionSaved& saved,
                const TensorView& grad_out, const MultiHeadAttentionGradients& gradients = {},
                Observer* observer = nullptr);

  /// The same layer with its projections in another scheme; outputs agree to a few roundings.
  MultiHeadAttention with_scheme(HeadScheme scheme) const;

  const MultiHeadAttentionConfig& config() const { return config_; }  // every 0 replaced by its default

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;
  void make_extra_rows();
  /// With the window.
  Mask mask_of(const MultiHeadAttentionOptions& options) const;
  struct Inputs;
  struct InputBlock;
  struct Projected;

  /// The heads' outputs side by side: [n, heads * head_dim]. `saved`, if given: all of it but `merged`.
  Tensor attend(const Inputs& inputs, const MultiHeadAttentionOptions& options, Observer* observer,
                MultiHeadAttentionSaved* saved) const;
  Tensor project_out(const Tensor& merged, const Sequences& query, int threads) const;
  HeadAttention middle(const Inputs& inputs, const MultiHeadAttentionSaved& saved) const;
  /// Heads of keys and values that are there at a time.
  std::int64_t heads_at_once(std::int64_t keys, const MultiHeadAttentionOptions& options) const;
  /// Projects roles begin <= role < end, which have the same rows.
  void project_roles(const Inputs& inputs, int begin, int end, const RotaryRows& angles, const Projected& to,
                     int threads) const;
  /// As attention takes them: rows of a role (0 to 2: queries, keys, values), projected to so many heads as `out`
  /// [n, ...] has, from `first_head` on; normed, if there are norms, and rotated, if rotary, by angles from `first_row`
  /// on. `before_norm`, if given, keeps them.
  void project(int role, const InputBlock& rows, std::int64_t first_head, const RotaryRows& angles,
               std::int64_t first_row, const MutableTensorView& out, const MutableTensorView& before_norm,
               int threads) const;
  Tensor project_all(int role, const Sequences& form, std::span<const std::int64_t> starts, int threads) const;
  void multiply(int role, const InputBlock& rows, std::int64_t first_head, const MutableTensorView& out,
                int threads) const;
  /// Angles of rows of queries or keys, if rotary: row i of sequence b has position starts[b] + i (none: i).
  RotaryRows angles_of(int role, const Sequences& form, std::span<const std::int64_t> starts = {}) const;
  /// Turned back, if rotary; from the gradient of what norms gave, if there are norms, in place.
  void heads_backward_in_place(int role, const Sequences& form, const Tensor& before_norm, Tensor& grad, int threads);
  HeadWeights head_weights(int role, std::vector<Tensor>& storage) const;
  HeadGradients head_gradients(int role);

  MultiHeadAttentionConfig config_;
  WeightStorage storage_;
  std::shared_ptr<const HeadLayout> layout_;  ///< of parameters_, without out_
  std::vector<PackedParameter> parameters_;
  Tensor extra_key_, extra_value_;        ///< [extra keys, kv_heads, head_dim]
  std::optional<LayerNorm> norms_[2];     ///< of queries and keys
  std::shared_ptr<RotaryAngles> angles_;  ///< if rotary
  Linear out_;
};

}  // namespace qkv
