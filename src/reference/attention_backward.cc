// The specification of attention's gradients: differentiate() is the chain rule for one query of one head.
#include "reference/attention_backward.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/dropout.h"
#include "reference/attention.h"
#include "reference/batch.h"

namespace qkv::reference {
namespace {

// One sequence of the batch, as in attention.cc, with the places for its gradients.
struct Sequence {
  std::int64_t batch_index;
  TensorView q, k, v, grad_out;
  TensorView weights, logits;  // [heads, q_len, k_len]
  MutableTensorView grad_q, grad_k, grad_v;
};

// sum += factor * term
void add(std::span<double> sum, double factor, Vector term) {
  for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += factor * term[c];
}

// Query i of one head: adds to the gradients of its group's keys and values, and to its own.
void differentiate(const Sequence& sequence, std::int64_t head, std::int64_t i, double scale,
                   const AttentionOptions& options) {
  const std::int64_t kv_head = head / (sequence.q.size(0) / sequence.k.size(0)), k_len = sequence.k.size(1);
  const Vector query = row(sequence.q, head, i), grad_out = row(sequence.grad_out, head, i);
  const Vector weights = row(sequence.weights, head, i), logits = row(sequence.logits, head, i);
  // A masked key is passed over, not multiplied by 0: it may hold NaN.
  const auto is_masked = [&](std::int64_t j) {
    return logits[static_cast<std::size_t>(j)] == -std::numeric_limits<double>::infinity();
  };

  // out = sum of factor * weight * value, with the factors of dropout
  const DropoutRule dropout(options.dropout);
  DropoutRow factors(dropout, sequence.batch_index, head, i);
  std::vector<double> grad_weights(static_cast<std::size_t>(k_len));
  for (std::int64_t j = 0; j < k_len; ++j) {
    if (is_masked(j)) continue;
    const double factor = factors.factor(j);
    grad_weights[static_cast<std::size_t>(j)] = factor * dot(grad_out, row(sequence.v, kv_head, j));
    add(row(sequence.grad_v, kv_head, j), factor * weights[static_cast<std::size_t>(j)], grad_out);
  }

  // weights = softmax(logits): d weight_a / d logit_b = weight_a * ([a = b] - weight_b)
  const double mean = dot(weights, grad_weights);
  for (std::int64_t j = 0; j < k_len; ++j) {
    if (is_masked(j)) continue;
    const auto at = static_cast<std::size_t>(j);
    const Vector key = row(sequence.k, kv_head, j);
    double gradient = weights[at] * (grad_weights[at] - mean);

    // logit = cap * tanh(scale * query . key / cap) + bias
    if (options.soft_cap != 0) gradient *= 1 - std::pow(std::tanh(scale * dot(query, key) / options.soft_cap), 2);
    add(row(sequence.grad_q, head, i), gradient * scale, key);
    add(row(sequence.grad_k, kv_head, j), gradient * scale, query);
  }
}

}  // namespace

AttentionGradients attention_backward(const TensorView& query, const TensorView& key, const TensorView& value,
                                      const TensorView& grad, const AttentionOptions& options) {
  const Batch batch(query, key, options);
  const Tensor q = batch.in_form(query), k = batch.in_form(key), v = batch.in_form(value);
  const Tensor grad_out = batch.in_form(grad);
  const AttentionResult forward = reference::attention(query, key, value, options);
  const bool scaled = options.score.kind() == Score::Kind::scaled_dot;
  const double scale = options.scale.value_or(scaled ? 1 / std::sqrt(static_cast<double>(q.size(-1))) : 1);

  AttentionGradients gradients{filled(q.shape(), 0), filled(k.shape(), 0), filled(v.shape(), 0)};
  for (std::int64_t b = 0; b < batch.size(); ++b) {
    const TensorView keys = batch.keys(k.view(), b);
    const Sequence sequence{.batch_index = b,
                            .q = batch.queries(q.view(), b),
                            .k = keys,
                            .v = batch.keys(v.view(), b),
                            .grad_out = batch.queries(grad_out.view(), b),
                            .weights = batch.queries(forward.weights.view(), b).slice(2, 0, keys.size(1)),
                            .logits = batch.queries(forward.logits.view(), b).slice(2, 0, keys.size(1)),
                            .grad_q = batch.queries(gradients.query.view(), b),
                            .grad_k = batch.keys(gradients.key.view(), b),
                            .grad_v = batch.keys(gradients.value.view(), b)};
    for (std::int64_t head = 0; head < sequence.q.size(0); ++head) {
      for (std::int64_t i = 0; i < sequence.q.size(1); ++i) {
        differentiate(sequence, head, i, scale, options);
      }
    }
  }
  return gradients;
}

}  // namespace qkv::reference
