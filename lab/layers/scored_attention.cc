// ScoredAttention: attention() in its packed form, with one head.
#include "lab/layers/scored_attention.h"

#include <algorithm>

#include "core/refuse.h"
#include "layers/basic/layer_checks.h"
#include "layers/basic/rows.h"
#include "layers/heads/head_operands.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/matmul.h"

namespace qkv {
namespace {

using Kind = Score::Kind;

// Rows [n, dim] as those of one head.
template <class View>
View one_head(const View& rows) {
  return rows.reshape({rows.size(0), 1, rows.size(1)});
}

AttentionOptions options_of(const Score& score, const Sequences& query, const Sequences& memory, int threads,
                            const Mask& mask) {
  return {.mask = mask,
          .scale = 1.0,
          .score = score,
          .offsets_query = query.offsets,
          .offsets_key = memory.offsets,
          .threads = threads};
}

// rows [n, in] matrix [in, out].
Tensor product(const TensorView& rows, const TensorView& matrix, int threads) {
  Tensor out = Tensor::uninitialized({rows.size(0), matrix.size(1)}, rows.dtype());
  matmul(rows, matrix, out, {.threads = threads});
  return out;
}

}  // namespace

ScoredAttention::ScoredAttention(const ScoredAttentionConfig& config, Weights& weights, const std::string& scope)
    : config_(config) {
  check_size("scored_attention", "dim", config.dim);
  const Dims square = {config.dim, config.dim};
  switch (config.score) {
    case Kind::dot:
      break;
    case Kind::bilinear:
      w_query_.value = weights.take(scope + "w", square);
      break;
    case Kind::additive:
      w_query_.value = weights.take(scope + "w_query", square);
      w_key_.value = weights.take(scope + "w_key", square);
      v_.value = weights.take(scope + "v", {config.dim});
      break;
    default:
      refuse("scored_attention", "score must be dot, additive or bilinear");
  }
}

Score ScoredAttention::score() const {
  if (config_.score == Kind::additive) return Score::additive(w_query_.value, w_key_.value, v_.value);
  return config_.score == Kind::bilinear ? Score::bilinear(w_query_.value) : Score::dot();
}

Tensor ScoredAttention::forward(const Sequences& query, const Sequences& memory, int threads, Observer* observer,
                                const Mask& mask) const {
  Tensor out = Tensor::uninitialized(query.rows.shape(), query.rows.dtype());
  const TensorView key = one_head(memory.rows);
  const AttentionOptions options = options_of(score(), query, memory, threads, mask);
  if (observer == nullptr) {
    attention(one_head(query.rows), key, key, one_head(out.view()), options);
    return out;
  }
  Tensor weights = Tensor::uninitialized({query.rows.size(0), 1, longest_sequence(memory)}, out.dtype());
  Tensor logits = Tensor::uninitialized(weights.shape(), out.dtype());
  attention(one_head(query.rows), key, key, one_head(out.view()), options, {.weights = weights, .logits = logits});
  Tensor own_query, own_key;
  if (config_.score == Kind::additive) {
    own_query = product(query.rows, w_query_.value.view().transpose(0, 1), threads);
    own_key = product(memory.rows, w_key_.value.view().transpose(0, 1), threads);
    observer->receive("v", v_.value);
  } else if (config_.score == Kind::bilinear) {
    own_query = product(query.rows, w_query_.value, threads);
  }
  const auto either = [](const Tensor& own, const TensorView& given) {
    return one_head(own.element_count() > 0 ? own.view() : given);
  };
  observer->receive("query", either(own_query, query.rows));
  observer->receive("key", either(own_key, memory.rows));
  observer->receive("value", key);
  observer->receive("logits", logits);
  observer->receive("weights", weights);
  observer->receive("heads", one_head(out.view()));
  return out;
}

Tensor ScoredAttention::forward(const Sequences& query, const Sequences& memory, ScoredAttentionSaved& saved,
                                int threads, const Mask& mask) const {
  saved.mask = mask;
  saved.out = Tensor::uninitialized(query.rows.shape(), query.rows.dtype());
  saved.log_sum_exp = Tensor::uninitialized({query.rows.size(0), 1}, query.rows.dtype());
  const TensorView key = one_head(memory.rows);
  attention(one_head(query.rows), key, key, one_head(saved.out.view()),
            options_of(score(), query, memory, threads, mask), {.log_sum_exp = saved.log_sum_exp});
  return saved.out;
}

void ScoredAttention::backward(const Sequences& query, const Sequences& memory, const ScoredAttentionSaved& saved,
                               const TensorView& grad_out, Tensor& grad_query, Tensor& grad_memory, int threads) {
  const auto like = [](const TensorView& view) { return Tensor::uninitialized(view.shape(), view.dtype()); };
  Tensor query_part = like(query.rows), key_part = like(memory.rows), value_part = like(memory.rows);
  Parameter* const all[] = {&w_query_, &w_key_, &v_};
  Tensor parts[3];
  MutableTensorView views[3];
  for (int i = 0; i < 3; ++i) {
    if (!all[i]->has_gradient()) continue;
    parts[i] = like(all[i]->gradient);
    views[i] = parts[i];
  }
  const TensorView key = one_head(memory.rows);
  attention_backward(one_head(query.rows), key, key, one_head(saved.out.view()), saved.log_sum_exp, one_head(grad_out),
                     options_of(score(), query, memory, threads, saved.mask),
                     {.query = one_head(query_part.view()),
                      .key = one_head(key_part.view()),
                      .value = one_head(value_part.view()),
                      .score = {.w_query = views[0], .w_key = views[1], .v = views[2]}});
  add_to(grad_query, query_part, threads);
  add_to(grad_memory, key_part, threads);
  add_to(grad_memory, value_part, threads);
  for (int i = 0; i < 3; ++i) {
    if (views[i]) add_to(all[i]->gradient, parts[i], threads);
  }
}

void ScoredAttention::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  if (config_.score == Kind::bilinear) walk(w_query_, scope + "w");
  if (config_.score != Kind::additive) return;
  walk(w_query_, scope + "w_query");
  walk(w_key_, scope + "w_key");
  walk(v_, scope + "v");
}

}  // namespace qkv
