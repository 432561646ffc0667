// The specification of attention_jvp() and attention_double_backward(): move() is the product rule for one query of one
// head, differentiate() the chain rule for the sum that it computes.

#include <cmath>
#include <limits>
#include <vector>

#include "reference/attention.h"
#include "reference/batch.h"
#include "reference/scorer.h"

namespace qkv::reference {
namespace {

// Inputs and their tangents, in f64 and in the form of the batch; a tangent that was not given is 0.
struct Inputs {
  Inputs(const Batch& batch, const TensorView& query, const TensorView& key, const TensorView& value,
         const AttentionTangents& tangents)
      : q(batch.in_form(query)),
        k(batch.in_form(key)),
        v(batch.in_form(value)),
        tq(tangents.query ? batch.in_form(tangents.query) : filled(q.shape(), 0)),
        tk(tangents.key ? batch.in_form(tangents.key) : filled(k.shape(), 0)),
        tv(tangents.value ? batch.in_form(tangents.value) : filled(v.shape(), 0)) {}
  Tensor q, k, v, tq, tk, tv;
};

// One sequence of the batch.
struct Sequence {
  Sequence(const Batch& batch, std::int64_t b, const Inputs& inputs, const AttentionResult& forward)
      : q(batch.queries(inputs.q.view(), b)),
        tq(batch.queries(inputs.tq.view(), b)),
        k(batch.keys(inputs.k.view(), b)),
        tk(batch.keys(inputs.tk.view(), b)),
        v(batch.keys(inputs.v.view(), b)),
        tv(batch.keys(inputs.tv.view(), b)),
        weights(batch.queries(forward.weights.view(), b).slice(2, 0, k.size(1))),
        logits(batch.queries(forward.logits.view(), b).slice(2, 0, k.size(1))) {}
  TensorView q, tq, k, tk, v, tv;
  TensorView weights, logits;  // [heads, q_len, k_len]
};

// Query i of one head.
struct Row {
  Row(const Sequence& sequence, std::int64_t head, std::int64_t i, const AttentionOptions& options)
      : kv_head(head / (sequence.q.size(0) / sequence.k.size(0))),
        scale(options.scale.value_or(Scorer(options.score).default_scale(sequence.q.size(2)))),
        query(row(sequence.q, head, i)),
        query_tangent(row(sequence.tq, head, i)),
        weights(row(sequence.weights, head, i)) {
    const Vector logits = row(sequence.logits, head, i);
    for (std::int64_t j = 0; j < sequence.k.size(1); ++j) {
      // A masked key is passed over, not multiplied by 0: it may hold NaN.
      if (logits[static_cast<std::size_t>(j)] == -std::numeric_limits<double>::infinity()) continue;
      const double slope =
          scale * (dot(query_tangent, row(sequence.k, kv_head, j)) + dot(query, row(sequence.tk, kv_head, j)));
      seen.push_back(j);
      slopes.push_back(slope);
      mean += weight(j) * slope;
    }
  }
  double weight(std::int64_t j) const { return weights[static_cast<std::size_t>(j)]; }

  std::int64_t kv_head;
  double scale;
  Vector query, query_tangent, weights;
  std::vector<std::int64_t> seen{};  // keys that are not masked
  std::vector<double> slopes{};      // the tangents of their logits
  double mean = 0;                   // of the slopes, by weight: the tangent of log-sum-exp
};

// to += the tangent of sum of weight_j value_j, where weight_j moves by weight_j (slope_j - mean)
void move(const Sequence& sequence, const Row& at, std::span<double> to) {
  for (std::size_t n = 0; n < at.seen.size(); ++n) {
    const std::int64_t j = at.seen[n];
    add(to, at.weight(j) * (at.slopes[n] - at.mean), row(sequence.v, at.kv_head, j));
    add(to, at.weight(j), row(sequence.tv, at.kv_head, j));
  }
}

// grad_out . that tangent is the sum of weight_j ((slope_j - mean) product_j + product'_j), with product = grad_out .
// value and product' = grad_out . tangent of value. Adds its gradients.
void differentiate(const Sequence& sequence, const Row& at, Vector grad_out, std::span<double> grad_query,
                   const MutableTensorView& grad_k, const MutableTensorView& grad_v) {
  std::vector<double> products, grad_weights;
  double mean_product = 0, mean_grad = 0;
  for (const std::int64_t j : at.seen) {
    products.push_back(dot(grad_out, row(sequence.v, at.kv_head, j)));
    mean_product += at.weight(j) * products.back();
  }
  for (std::size_t n = 0; n < at.seen.size(); ++n) {
    const std::int64_t j = at.seen[n];
    // the weight also stands in the mean
    grad_weights.push_back((at.slopes[n] - at.mean) * products[n] + dot(grad_out, row(sequence.tv, at.kv_head, j)) -
                           at.slopes[n] * mean_product);
    mean_grad += at.weight(j) * grad_weights.back();
  }
  for (std::size_t n = 0; n < at.seen.size(); ++n) {
    const std::int64_t j = at.seen[n];
    const double grad_slope = at.weight(j) * (products[n] - mean_product);
    const double grad_logit = at.weight(j) * (grad_weights[n] - mean_grad);
    add(row(grad_v, at.kv_head, j), at.weight(j) * (at.slopes[n] - at.mean), grad_out);
    // slope = scale * (tangent of query . key + query . tangent of key), logit = scale * query . key
    add(grad_query, at.scale * grad_slope, row(sequence.tk, at.kv_head, j));
    add(grad_query, at.scale * grad_logit, row(sequence.k, at.kv_head, j));
    add(row(grad_k, at.kv_head, j), at.scale * grad_slope, at.query_tangent);
    add(row(grad_k, at.kv_head, j), at.scale * grad_logit, at.query);
  }
}

}  // namespace

OutputTangents attention_jvp(const TensorView& q, const TensorView& k, const TensorView& v,
                             const AttentionTangents& tangents, const AttentionOptions& options) {
  const Batch batch(q, k, options);
  const Inputs inputs(batch, q, k, v, tangents);
  const AttentionResult forward = reference::attention(q, k, v, options);
  OutputTangents moved{filled(forward.out.shape(), 0), filled(forward.log_sum_exp.shape(), 0)};
  for (std::int64_t b = 0; b < batch.size(); ++b) {
    const Sequence sequence(batch, b, inputs, forward);
    const MutableTensorView out = batch.queries(moved.out.view(), b);
    const MutableTensorView log_sum_exp = batch.queries(moved.log_sum_exp.view(), b);
    for (std::int64_t head = 0; head < sequence.q.size(0); ++head) {
      for (std::int64_t i = 0; i < sequence.q.size(1); ++i) {
        const Row at(sequence, head, i, options);
        move(sequence, at, row(out, head, i));
        log_sum_exp.at<double>({head, i}) = at.mean;
      }
    }
  }
  return moved;
}

SecondGradients attention_double_backward(const TensorView& q, const TensorView& k, const TensorView& v,
                                          const TensorView& grad_out, const AttentionTangents& tangents,
                                          const AttentionOptions& options) {
  const Batch batch(q, k, options);
  const Inputs inputs(batch, q, k, v, tangents);
  const Tensor grads = batch.in_form(grad_out);
  const AttentionResult forward = reference::attention(q, k, v, options);
  SecondGradients gradients{filled(inputs.q.shape(), 0), filled(inputs.k.shape(), 0), filled(inputs.v.shape(), 0),
                            filled(forward.out.shape(), 0)};
  for (std::int64_t b = 0; b < batch.size(); ++b) {
    const Sequence sequence(batch, b, inputs, forward);
    const TensorView grad = batch.queries(grads.view(), b);
    const MutableTensorView grad_q = batch.queries(gradients.query.view(), b);
    const MutableTensorView grad_grad = batch.queries(gradients.grad_out.view(), b);
    const MutableTensorView grad_k = batch.keys(gradients.key.view(), b),
                            grad_v = batch.keys(gradients.value.view(), b);
    for (std::int64_t head = 0; head < sequence.q.size(0); ++head) {
      for (std::int64_t i = 0; i < sequence.q.size(1); ++i) {
        const Row at(sequence, head, i, options);
        move(sequence, at, row(grad_grad, head, i));
        differentiate(sequence, at, row(grad, head, i), row(grad_q, head, i), grad_k, grad_v);
      }
    }
  }
  return gradients;
}

}  // namespace qkv::reference
