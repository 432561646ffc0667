// The specification of attention's gradients: differentiate() is the chain rule for one query of one head, and
// add_parameters() hands the gradients of the logits on to what was added to them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/options/dropout.h"
#include "reference/attention.h"
#include "reference/batch.h"
#include "reference/scorer.h"

namespace qkv::reference {
namespace {

// One sequence of the batch, as in attention.cc, with the outputs of its gradients.
struct Sequence {
  std::int64_t batch_index;
  TensorView q, k, v, grad_out;
  TensorView weights, logits;   // [heads, q_len, k_len]
  TensorView out, log_sum_exp;  // [heads, q_len, ...]
  std::int64_t offset;          // query i stands among the keys at i + offset
  MutableTensorView grad_q, grad_k, grad_v, grad_logits;
  AttentionGradients* whole;  // of the batch: biases and the score's parameters
};

// Query i of one head: adds to the gradients of its group's keys and values, and to its own.
void differentiate(const Sequence& sequence, std::int64_t head, std::int64_t i, const Scorer& scorer,
                   const AttentionOptions& options) {
  const std::int64_t kv_head = head / (sequence.q.size(0) / sequence.k.size(0)), k_len = sequence.k.size(1);
  const Vector query = row(sequence.q, head, i), grad_out = row(sequence.grad_out, head, i);
  const double scale = options.scale.value_or(scorer.default_scale(sequence.q.size(2)));
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
    row(sequence.grad_logits, head, i)[at] = gradient;

    // logit = cap * tanh(scale * score(query, key) / cap) + bias
    for (Tensor& bias : sequence.whole->bias) {
      bias.view().at<double>(broadcast_index(bias.shape(), {sequence.batch_index, head, i, j})) += gradient;
    }
    if (options.soft_cap != 0) {
      gradient *= 1 - std::pow(std::tanh(scale * scorer.score(query, key) / options.soft_cap), 2);
    }
    scorer.add_gradients(gradient * scale, query, key, row(sequence.grad_q, head, i), row(sequence.grad_k, kv_head, j),
                         sequence.whole->score);
  }
}

// One head of sequence b: adds to the gradients of tables, slopes and sinks, and to those of queries that meet Shaw's.
void add_parameters(const Sequence& sequence, std::int64_t b, std::int64_t head, double scale,
                    const AttentionOptions& options, AttentionGradients& gradients) {
  std::vector<Tensor> values;
  for (const RelativeTable& table : options.bias.tables()) values.push_back(in_double(table.values()));
  for (std::int64_t i = 0; i < sequence.q.size(1); ++i) {
    const std::int64_t position = i + sequence.offset;
    const Vector grad_logits = row(sequence.grad_logits, head, i);
    for (std::int64_t j = 0; j < sequence.k.size(1); ++j) {
      const double gradient = grad_logits[static_cast<std::size_t>(j)];
      if (gradient == 0) continue;
      for (std::size_t t = 0; t < gradients.tables.size(); ++t) {
        const RelativeTable& table = options.bias.tables()[t];
        const std::int64_t bucket = table.bucket(position, j);
        const MutableTensorView to = gradients.tables[t].view();
        if (table.kind() == RelativeTable::Kind::shaw) {
          add(row(sequence.grad_q, head, i), gradient * scale, row(values[t].view(), bucket));
          add(row(to, bucket), gradient * scale, row(sequence.q, head, i));
        } else {
          to.at<double>({bucket, head}) += gradient;
        }
      }
      for (Tensor& slopes : gradients.alibi_slopes) {  // [heads], or [batch, heads] with extents of 1 that repeat
        Dims index{slopes.size(-1) == 1 ? 0 : head};
        if (slopes.rank() == 2) index = {slopes.size(0) == 1 ? 0 : b, index[0]};
        slopes.view().at<double>(index) -= gradient * static_cast<double>(std::abs(position - j));
      }
    }
    const Vector logits = row(sequence.logits, head, i);
    const auto is_masked = [](double logit) { return logit == -std::numeric_limits<double>::infinity(); };
    if (!options.sinks || std::all_of(logits.begin(), logits.end(), is_masked)) continue;
    // out = sum of weight * value over the keys, a sink being a key of value 0
    const double weight =
        std::exp(in_double(options.sinks).view().at<double>({head}) - sequence.log_sum_exp.at<double>({head, i}));
    const double product = dot(row(sequence.grad_out, head, i), row(sequence.out, head, i));
    if (weight > 0) gradients.sinks.view().at<double>({head}) -= weight * product;
  }
}

}  // namespace

AttentionGradients attention_backward(const TensorView& query, const TensorView& key, const TensorView& value,
                                      const TensorView& grad, const AttentionOptions& options) {
  const Batch batch(query, key, options);
  const Tensor q = batch.in_form(query), k = batch.in_form(key), v = batch.in_form(value);
  const Tensor grad_out = batch.in_form(grad);
  const AttentionResult forward = reference::attention(query, key, value, options);
  const Scorer scorer(options.score);

  AttentionGradients gradients{filled(q.shape(), 0), filled(k.shape(), 0), filled(v.shape(), 0)};
  gradients.score = scorer.no_gradients();
  for (const TensorView& bias : options.bias.views()) gradients.bias.push_back(filled(bias.shape(), 0));
  for (const RelativeTable& table : options.bias.tables()) {
    gradients.tables.push_back(filled(table.values().shape(), 0));
  }
  for (const TensorView& slopes : options.bias.alibi_slopes()) {
    gradients.alibi_slopes.push_back(filled(slopes.shape(), 0));
  }
  if (options.sinks) gradients.sinks = filled(options.sinks.shape(), 0);
  Tensor grad_logits = filled(forward.logits.shape(), 0);
  const double scale = options.scale.value_or(scorer.default_scale(q.size(-1)));
  for (std::int64_t b = 0; b < batch.size(); ++b) {
    const TensorView keys = batch.keys(k.view(), b);
    const Sequence sequence{.batch_index = b,
                            .q = batch.queries(q.view(), b),
                            .k = keys,
                            .v = batch.keys(v.view(), b),
                            .grad_out = batch.queries(grad_out.view(), b),
                            .weights = batch.queries(forward.weights.view(), b).slice(2, 0, keys.size(1)),
                            .logits = batch.queries(forward.logits.view(), b).slice(2, 0, keys.size(1)),
                            .out = batch.queries(forward.out.view(), b),
                            .log_sum_exp = batch.queries(forward.log_sum_exp.view(), b),
                            .offset = batch.offset(b, batch.queries(q.view(), b).size(1), keys.size(1)),
                            .grad_q = batch.queries(gradients.query.view(), b),
                            .grad_k = batch.keys(gradients.key.view(), b),
                            .grad_v = batch.keys(gradients.value.view(), b),
                            .grad_logits = batch.queries(grad_logits.view(), b).slice(2, 0, keys.size(1)),
                            .whole = &gradients};
    for (std::int64_t head = 0; head < sequence.q.size(0); ++head) {
      for (std::int64_t i = 0; i < sequence.q.size(1); ++i) {
        differentiate(sequence, head, i, scorer, options);
      }
      add_parameters(sequence, b, head, scale, options, gradients);
    }
  }
  return gradients;
}

}  // namespace qkv::reference
