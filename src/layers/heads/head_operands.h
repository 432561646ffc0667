// The heads of multi-head attention as views with strides into the projected rows, as attention() takes them.
#pragma once

#include <span>
#include <vector>

#include "layers/heads/head_attention.h"
#include "qkv/attention.h"

namespace qkv::inline layers {

// [batch, length] of padded rows. std::invalid_argument for rows that are neither padded nor ragged.
Dims batch_and_length(const Sequences& form);

// The number of rows of each sequence. std::invalid_argument if the offsets are not those of the rows.
std::vector<std::int64_t> sequence_lengths(const Sequences& form);

// The largest of these; 0 without a sequence.
std::int64_t longest_sequence(const Sequences& form);

// The shape of log_sum_exp: [batch, heads, q_len], ragged [query tokens, heads].
Dims log_sum_exp_shape(const Sequences& query, std::int64_t heads);

// The position of each row in its sequence: row i of sequence b at starts[b] + i; no starts: at i.
std::vector<std::int32_t> row_positions(const Sequences& form, std::span<const std::int64_t> starts = {});

// [n, heads * head_dim], rows a stride apart, as [batch, heads, length, head_dim]; ragged: [n, heads, head_dim].
template <class View>
View split_heads(const View& rows, const Sequences& form, std::int64_t heads) {
  const std::int64_t head_dim = rows.size(1) / heads, step = rows.stride(0);
  if (form.ragged()) return View(rows.bytes(), rows.dtype(), {rows.size(0), heads, head_dim}, {step, head_dim, 1});
  const Dims padded = batch_and_length(form);
  return View(rows.bytes(), rows.dtype(), {padded[0], padded[1], heads, head_dim},
              {padded[1] * step, step, head_dim, 1})
      .transpose(1, 2);
}

// The keys given.
struct HeadOperands {
  // std::invalid_argument unless queries, keys and values have one form.
  HeadOperands(const HeadAttention& in, const MultiHeadAttentionOptions& options);

  TensorView query, key, value;
  AttentionOptions options;
};

// The extra keys, for the same queries, without a mask and with a dropout of their own: padded, they are the same for
// every sequence; ragged, all queries are one sequence.
struct ExtraOperands {
  ExtraOperands(const HeadAttention& in, const HeadOperands& given);
  ExtraOperands(const ExtraOperands&) = delete;
  ExtraOperands& operator=(const ExtraOperands&) = delete;

  TensorView key, value;
  AttentionOptions options;

 private:
  Tensor query_offsets_, key_offsets_;
};

}  // namespace qkv::inline layers
