// Makes strided views of the heads, and computes the lengths and positions of their sequences.
#include "layers/heads/head_operands.h"

#include <algorithm>

#include "core/refuse.h"
#include "layers/basic/rows.h"

namespace qkv::inline layers {

Dims batch_and_length(const Sequences& form) {
  const int rank = form.rows.rank();
  if (form.ragged() ? rank != 2 : rank != 2 && rank != 3) {
    refuse("multi_head_attention",
           "an input is {}; it must be [batch, length, dim] or [length, dim], or "
           "[tokens, dim] with offsets",
           to_string(form.rows.shape()));
  }
  return {rank == 3 ? form.rows.size(0) : 1, form.rows.size(-2)};
}

std::vector<std::int64_t> sequence_lengths(const Sequences& form) {
  const Dims padded = batch_and_length(form);
  if (!form.ragged()) return std::vector<std::int64_t>(static_cast<std::size_t>(padded[0]), padded[1]);
  const TensorView& offsets = form.offsets;
  const auto fail = [&] {
    refuse("multi_head_attention", "offsets must be i32 [batch + 1], from 0 up to {} rows", padded[1]);
  };
  if (offsets.dtype() != Dtype::i32 || offsets.rank() != 1 || offsets.size(0) < 1) fail();
  std::vector<std::int64_t> lengths;
  std::int64_t end = 0;
  for (std::int64_t b = 1; b < offsets.size(0); ++b) {
    lengths.push_back(offsets.at<std::int32_t>({b}) - end);
    if (lengths.back() < 0) fail();
    end += lengths.back();
  }
  if (offsets.at<std::int32_t>({0}) != 0 || end != padded[1]) fail();
  return lengths;
}

std::vector<std::int32_t> row_positions(const Sequences& form, std::span<const std::int64_t> starts) {
  const std::vector<std::int64_t> lengths = sequence_lengths(form);
  if (!starts.empty() && starts.size() != lengths.size()) {
    refuse("multi_head_attention", "{} sequences and a cache of {}", lengths.size(), starts.size());
  }
  std::vector<std::int32_t> positions;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const std::int64_t start = starts.empty() ? 0 : starts[b];
    for (std::int64_t i = 0; i < lengths[b]; ++i) positions.push_back(static_cast<std::int32_t>(start + i));
  }
  return positions;
}

std::int64_t longest_sequence(const Sequences& form) {
  const std::vector<std::int64_t> lengths = sequence_lengths(form);
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

Dims log_sum_exp_shape(const Sequences& query, std::int64_t heads) {
  const Dims padded = batch_and_length(query);
  return query.ragged() ? Dims{padded[1], heads} : Dims{padded[0], heads, padded[1]};
}

HeadOperands::HeadOperands(const HeadAttention& in, const MultiHeadAttentionOptions& given)
    : options{.mask = given.mask,
              .bias = given.bias,
              .scale = in.config.scale,
              .soft_cap = in.config.soft_cap,
              .precision = in.precision,
              .dropout = given.dropout,
              // Extra keys leave no row without one, though a part of the call may see none.
              .empty_rows = in.extra_key.size(0) > 0 ? EmptyRows::zero : given.empty_rows,
              .offsets_query = in.query.form.offsets,
              .offsets_key = in.key.form.offsets,
              .threads = given.threads,
              .stop = given.stop} {
  if (in.query.form.ragged() != in.key.form.ragged() || in.query.form.ragged() != in.value.form.ragged()) {
    refuse("multi_head_attention", "queries, keys and values must be all padded or all ragged");
  }
  query = split_heads(in.query.projected, in.query.form, in.config.heads);
  key = split_heads(in.key.projected, in.key.form, in.config.kv_heads);
  value = split_heads(in.value.projected, in.value.form, in.config.kv_heads);
}

ExtraOperands::ExtraOperands(const HeadAttention& in, const HeadOperands& given)
    : key(in.extra_key),
      value(in.extra_value),
      options{.scale = in.config.scale,
              .soft_cap = in.config.soft_cap,
              .precision = in.precision,
              .dropout = dropout_at(given.options.dropout, 0),
              .threads = given.options.threads,
              .stop = given.options.stop} {
  const std::int64_t count = key.size(0), ends[] = {given.query.size(0), count};
  if (in.query.form.ragged()) {
    query_offsets_ = offsets_of(std::span(ends, 1));
    key_offsets_ = offsets_of(std::span(ends + 1, 1));
    options.offsets_query = query_offsets_;
    options.offsets_key = key_offsets_;
  } else {
    const Dims shape{given.query.size(0), in.config.kv_heads, count, given.query.size(-1)};
    key = key.transpose(0, 1).broadcast_to(shape);
    value = value.transpose(0, 1).broadcast_to(shape);
  }
}

}  // namespace qkv::inline layers
