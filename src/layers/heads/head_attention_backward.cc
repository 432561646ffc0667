// Gradients of the attention between projections. The weights of a part of the keys are e^(logit - log-sum-exp of all
// keys), so that each part is its own backward pass with the output and log-sum-exp of the whole.
#include "layers/basic/rows.h"
#include "layers/heads/head_operands.h"
#include "qkv/attention/attention_backward.h"

namespace qkv {
namespace {

// Of all sequences together: [extra keys, heads, head_dim] from [extra keys, heads, head_dim] or, padded,
// [batch, heads, extra keys, head_dim].
Tensor sum_over_batch(const Tensor& gradient, bool ragged) {
  if (ragged) return gradient;
  const TensorView by_key = gradient.view().transpose(1, 2);
  Tensor sum = Tensor::zeros({by_key.size(1), by_key.size(2), by_key.size(3)}, gradient.dtype());
  for (std::int64_t b = 0; b < by_key.size(0); ++b) add_to(sum, Tensor::copy(by_key.select(0, b)), 1);
  return sum;
}

}  // namespace

HeadAttentionGradients attend_heads_backward(const HeadAttention& in, const HeadAttentionOutcome& outcome,
                                             const MultiHeadAttentionOptions& options) {
  const HeadOperands given(in, options);
  const Sequences& form = in.query.form;
  const TensorView out = split_heads(outcome.merged, form, in.config.heads);
  const TensorView grad_out = split_heads(outcome.grad_merged, form, in.config.heads);
  const auto like = [](const TensorView& view) { return Tensor::uninitialized(view.shape(), view.dtype()); };
  HeadAttentionGradients gradients{.query = like(in.query.projected),
                                   .key = like(in.key.projected),
                                   .value = like(in.value.projected),
                                   .extra_key = {},
                                   .extra_value = {},
                                   .table = {}};
  AttentionGradients wanted{.query = split_heads(gradients.query.view(), form, in.config.heads),
                            .key = split_heads(gradients.key.view(), in.key.form, in.config.kv_heads),
                            .value = split_heads(gradients.value.view(), in.value.form, in.config.kv_heads)};
  if (options.table_gradient) {
    gradients.table = like(options.table_gradient);
    wanted.tables = {gradients.table};
  }
  attention_backward(given.query, given.key, given.value, out, outcome.log_sum_exp, grad_out, given.options, wanted);
  if (in.extra_key.size(0) == 0) return gradients;

  const ExtraOperands extra(in, given);
  Tensor query = like(in.query.projected), key = like(extra.key), value = like(extra.value);
  attention_backward(given.query, extra.key, extra.value, out, outcome.log_sum_exp, grad_out, extra.options,
                     {.query = split_heads(query.view(), form, in.config.heads), .key = key, .value = value});
  add_to(gradients.query, query, options.threads);
  gradients.extra_key = sum_over_batch(key, form.ragged());
  gradients.extra_value = sum_over_batch(value, form.ragged());
  return gradients;
}

}  // namespace qkv
