// Checks where attention() writes, and writes it into the task of a head.
#include "attention/call/attention_outputs.h"

#include <algorithm>
#include <tuple>

#include "attention/call/view_checks.h"

namespace qkv::inline attending {
namespace {

MutableTensorView output(std::string_view name, const TensorView& view) {
  require_distinct(name, view);
  return {writable(view.bytes()), view.dtype(), view.shape(), view.strides()};
}

}  // namespace

AttentionOutputs::AttentionOutputs(const AttentionInputs& inputs, const MutableTensorView& out,
                                   const AttentionExtras& extras) {
  if (out.dtype() != inputs.storage && out.dtype() != inputs.accumulation) {
    fail("out has type {}; it must be {} like query, or {}", name_of(out.dtype()), name_of(inputs.storage),
         name_of(inputs.accumulation));
  }
  out_ = output("out", inputs.query_rows("out", out, inputs.value_dim));
  if (extras.log_sum_exp) log_sum_exp_ = output("log_sum_exp", inputs.query_scalars("log_sum_exp", extras.log_sum_exp));
  const auto plane = [&](std::string_view name, const MutableTensorView& view) {
    inputs.require_accumulation(name, view);
    return output(name, inputs.query_rows(name, view, inputs.k_len));
  };
  if (extras.weights) weights_ = plane("weights", extras.weights);
  if (extras.logits) logits_ = plane("logits", extras.logits);
  if (static_cast<bool>(extras.rows) != static_cast<bool>(extras.row_weights)) {
    fail("rows and row_weights must be given together, only one was");
  }
  if (extras.rows) {
    if (extras.rows.dtype() != Dtype::i64 || extras.rows.rank() != 2 || extras.rows.size(1) != 3) {
      fail("rows must be i64 [n, 3], got {} {}", name_of(extras.rows.dtype()), to_string(extras.rows.shape()));
    }
    require_shape("row_weights", extras.row_weights, {extras.rows.size(0), inputs.k_len});
    inputs.require_accumulation("row_weights", extras.row_weights);
    require_unit_stride("row_weights", extras.row_weights);
    row_weights_ = output("row_weights", extras.row_weights);
    set_chosen_rows(inputs, extras.rows);
  }
  check_statistics(inputs, extras);
}

// Each number is read once: the caller's memory may change after it was checked.
void AttentionOutputs::set_chosen_rows(const AttentionInputs& inputs, const TensorView& rows) {
  chosen_rows_.reserve(static_cast<std::size_t>(rows.size(0)));
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const auto number = [&](std::int64_t at) { return rows.at<std::int64_t>({i, at}); };
    const auto [b, h, query, place] = chosen_rows_.emplace_back(ChosenRow{number(0), number(1), number(2), i});
    if (b < 0 || b >= inputs.batch || h < 0 || h >= inputs.heads || query < 0 || query >= inputs.query_length(b)) {
      fail("rows[{}] = ({}, {}, {}) is outside (batch, head, query)", i, b, h, query);
    }
  }
  std::sort(chosen_rows_.begin(), chosen_rows_.end(), [](const ChosenRow& x, const ChosenRow& y) {
    return std::tie(x.sequence, x.head, x.query, x.place) < std::tie(y.sequence, y.head, y.query, y.place);
  });
}

std::size_t AttentionOutputs::chosen_rows_bytes(const AttentionExtras& extras) {
  return extras.rows ? static_cast<std::size_t>(extras.rows.size(0)) * sizeof(ChosenRow) : 0;
}

std::size_t AttentionOutputs::log_sum_exp_bytes(const AttentionInputs& inputs) {
  return static_cast<std::size_t>(element_count(inputs.query_shape())) * size_of(inputs.accumulation);
}

void AttentionOutputs::add_log_sum_exp(const AttentionInputs& inputs) {
  own_log_sum_exp_ = Tensor::uninitialized(inputs.query_shape(), inputs.accumulation);
  log_sum_exp_ = own_log_sum_exp_;
}

void AttentionOutputs::check_statistics(const AttentionInputs& inputs, const AttentionExtras& extras) {
  if (extras.row_maximum) row_maximum_ = output("row_maximum", inputs.query_scalars("row_maximum", extras.row_maximum));
  if (extras.entropy) entropy_ = output("entropy", inputs.query_scalars("entropy", extras.entropy));
  if (static_cast<bool>(extras.top_keys) != static_cast<bool>(extras.top_weights)) {
    fail("top_keys and top_weights must be given together, only one was");
  }
  if (extras.top_keys) {
    if (extras.top_keys.dtype() != Dtype::i64) fail("top_keys is {}; it must be i64", name_of(extras.top_keys.dtype()));
    inputs.require_accumulation("top_weights", extras.top_weights);
    const std::int64_t count = extras.top_keys.rank() == 0 ? 0 : extras.top_keys.size(-1);
    top_keys_ = output("top_keys", inputs.query_rows("top_keys", extras.top_keys, count));
    top_weights_ = output("top_weights", inputs.query_rows("top_weights", extras.top_weights, count));
  }
  if (extras.received) {
    if (inputs.packed && inputs.paged) fail("received is not supported for packed queries with paged keys");
    received_ = output("received", inputs.key_scalars("received", extras.received));
  }
  if (extras.block_weights) {
    inputs.require_accumulation("block_weights", extras.block_weights);
    const Dims batch = inputs.mask_batch();
    const int rank = batch.size() + 3, given = extras.block_weights.rank();
    if (given > rank || given < std::min(rank, 2)) {
      fail("block_weights {} has the wrong rank for batch {}", to_string(extras.block_weights.shape()),
           to_string(batch));
    }
    const TensorView view = with_rank(extras.block_weights, rank);
    require_shape("block_weights", view, concatenate(batch, {inputs.heads, view.size(-2), view.size(-1)}));
    require_unit_stride("block_weights", view);
    if (view.element_count() > 0) block_weights_ = output("block_weights", view);
  }
}

void AttentionOutputs::set(CommonTask& common) const {
  common.out_type = out_.dtype();
  if (top_keys_) common.top_count = top_keys_.size(-1);
  if (!block_weights_) return;
  common.block_rows = block_weights_.size(-2);
  common.block_columns = block_weights_.size(-1);
  common.block_step = block_weights_.stride(-2);
}

void AttentionOutputs::set(AttentionTask& task, const AttentionInputs& inputs, std::int64_t b, std::int64_t h) const {
  // Its steps are the strides of this dimension.
  const auto of_queries = [&](const MutableTensorView& view, int dim) {
    if (!view) return OutputRows{};
    return OutputRows{writable(inputs.query_address(view, b, h)), view.stride(dim)};
  };
  task.out = of_queries(out_, -2);
  task.log_sum_exp = of_queries(log_sum_exp_, -1);
  task.weights = of_queries(weights_, -2);
  task.logits = of_queries(logits_, -2);
  if (row_weights_) task.row_weights = {row_weights_.bytes(), row_weights_.stride(0)};
  task.row_maximum = of_queries(row_maximum_, -1);
  task.entropy = of_queries(entropy_, -1);
  task.top_keys = of_queries(top_keys_, -2);
  task.top_weights = of_queries(top_weights_, -2);
  if (received_) task.received = {writable(inputs.key_address(received_, b, h)), received_.stride(-1)};
  if (block_weights_) task.block_weights = writable(head_address(block_weights_, inputs.mask_batch(), b, h));
}

}  // namespace qkv::inline attending
