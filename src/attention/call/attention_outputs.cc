// Checks where attention() writes: the output and the optional outputs.
#include <algorithm>

#include "attention/call/attention_problem.h"
#include "attention/call/view_checks.h"

namespace qkv {
namespace {

MutableTensorView place(std::string_view name, const TensorView& view) {
  require_distinct(name, view);
  return {writable(view.bytes()), view.dtype(), view.shape(), view.strides()};
}

}  // namespace

void AttentionProblem::require_accumulation(std::string_view name, const TensorView& view) const {
  if (view.dtype() != accumulation) fail("{} is {}; it must be {}", name, name_of(view.dtype()), name_of(accumulation));
}

void AttentionProblem::set_outputs(const MutableTensorView& out, const AttentionExtras& extras) {
  if (out.dtype() != storage && out.dtype() != accumulation) {
    fail("out has type {}; it must be {} like q, or {}", name_of(out.dtype()), name_of(storage), name_of(accumulation));
  }
  out_ = place("out", query_rows("out", out, value_dim));
  if (extras.log_sum_exp) {
    log_sum_exp_ = place("log_sum_exp", query_scalars("log_sum_exp", extras.log_sum_exp));
  } else if (empty_rows == EmptyRows::nan) {
    memory_.keep(static_cast<std::size_t>(element_count(query_shape())) * size_of(accumulation));
  }
  const auto plane = [&](std::string_view name, const MutableTensorView& view) {
    require_accumulation(name, view);
    return place(name, query_rows(name, view, k_len));
  };
  if (extras.weights) weights_ = plane("weights", extras.weights);
  if (extras.logits) logits_ = plane("logits", extras.logits);
  if (static_cast<bool>(extras.rows) != static_cast<bool>(extras.row_weights)) {
    fail("rows and row_weights must be given together, only one was");
  }
  if (extras.rows) check_rows(extras.rows, extras.row_weights);
  set_statistics(extras);
}

void AttentionProblem::complete_outputs() {
  if (empty_rows == EmptyRows::zero || log_sum_exp_) return;
  own_log_sum_exp_ = Tensor::uninitialized(query_shape(), accumulation);
  log_sum_exp_ = own_log_sum_exp_;
}

void AttentionProblem::set_statistics(const AttentionExtras& extras) {
  if (extras.row_maximum) row_maximum_ = place("row_maximum", query_scalars("row_maximum", extras.row_maximum));
  if (extras.entropy) entropy_ = place("entropy", query_scalars("entropy", extras.entropy));
  if (static_cast<bool>(extras.top_keys) != static_cast<bool>(extras.top_weights)) {
    fail("top_keys and top_weights must be given together, only one was");
  }
  if (extras.top_keys) {
    if (extras.top_keys.dtype() != Dtype::i64) fail("top_keys is {}; it must be i64", name_of(extras.top_keys.dtype()));
    require_accumulation("top_weights", extras.top_weights);
    const std::int64_t count = extras.top_keys.rank() == 0 ? 0 : extras.top_keys.size(-1);
    top_keys_ = place("top_keys", query_rows("top_keys", extras.top_keys, count));
    top_weights_ = place("top_weights", query_rows("top_weights", extras.top_weights, count));
  }
  if (extras.received) {
    if (packed && paged) fail("received is not supported for packed queries with paged keys");
    require_accumulation("received", extras.received);
    received_ = place("received", brought_to("received", extras.received,
                                             concatenate(batch_shape_, {heads, packed ? k_.size(-2) : k_len})));
  }
  if (extras.block_weights) {
    require_accumulation("block_weights", extras.block_weights);
    const int rank = mask_batch().size() + 3;
    const int given = extras.block_weights.rank();
    if (given > rank || given < std::min(rank, 2)) {
      fail("block_weights {} has the wrong rank for q {}", to_string(extras.block_weights.shape()),
           to_string(q_.shape()));
    }
    const TensorView view = with_rank(extras.block_weights, rank);
    require_shape("block_weights", view, concatenate(mask_batch(), {heads, view.size(-2), view.size(-1)}));
    require_unit_stride("block_weights", view);
    block_weights_ = place("block_weights", view);
  }
}

void AttentionProblem::check_rows(const TensorView& rows, const TensorView& row_weights) const {
  if (rows.dtype() != Dtype::i64 || rows.rank() != 2 || rows.size(1) != 3) {
    fail("rows must be i64 [n, 3], got {} {}", name_of(rows.dtype()), to_string(rows.shape()));
  }
  require_shape("row_weights", row_weights, {rows.size(0), k_len});
  if (row_weights.dtype() != accumulation) {
    fail("row_weights is {}; it must be {}", name_of(row_weights.dtype()), name_of(accumulation));
  }
  require_unit_stride("row_weights", row_weights);
  require_distinct("row_weights", row_weights);
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const std::int64_t b = rows.at<std::int64_t>({i, 0}), h = rows.at<std::int64_t>({i, 1});
    const std::int64_t query = rows.at<std::int64_t>({i, 2});
    if (b < 0 || b >= batch || h < 0 || h >= heads || query < 0 || query >= query_length(b)) {
      fail("rows[{}] = ({}, {}, {}) is outside (batch, head, query)", i, b, h, query);
    }
  }
}

void AttentionProblem::set_places_of(AttentionTask& task, std::int64_t b, std::int64_t h) const {
  if (out_) {
    task.out = writable(query_address(out_, b, h));
    task.out_step = out_.stride(-2);
    task.out_type = out_.dtype();
  }
  if (log_sum_exp_) {
    task.log_sum_exp = writable(query_address(log_sum_exp_, b, h));
    task.log_sum_exp_step = log_sum_exp_.stride(-1);
  }
  if (weights_) {
    task.weights = writable(query_address(weights_, b, h));
    task.weights_step = weights_.stride(-2);
  }
  if (logits_) {
    task.logits = writable(query_address(logits_, b, h));
    task.logits_step = logits_.stride(-2);
  }
  task.row_length = k_len;

  const auto query_place = [&](const MutableTensorView& view, int steps_from_end) {
    if (!view) return QueryOutput{};
    return QueryOutput{writable(query_address(view, b, h)), view.stride(-steps_from_end)};
  };
  task.row_maximum = query_place(row_maximum_, 1);
  task.entropy = query_place(entropy_, 1);
  task.top_keys = query_place(top_keys_, 2);
  task.top_weights = query_place(top_weights_, 2);
  if (top_keys_) task.top_count = top_keys_.size(-1);
  if (received_) {
    task.received = writable(key_address(received_, b, h));
    task.received_step = received_.stride(-1);
  }
  if (block_weights_) {
    task.block_weights = writable(head_address(block_weights_, mask_batch(), b, h));
    task.block_rows = block_weights_.size(-2);
    task.block_columns = block_weights_.size(-1);
    task.block_step = block_weights_.stride(-2);
  }
}

}  // namespace qkv
