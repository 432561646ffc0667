// Checks the options of a call and where it writes, chooses the kernels, and makes the task of each head.
#include "attention/call/attention_call.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "attention/call/view_checks.h"
#include "attention/tile/tile_pieces.h"
#include "core/worth_waking.h"
#include "qkv/attention/precision.h"
#include "qkv/target.h"
#include "qkv/threads.h"
#include "simd/dispatch.h"

namespace qkv::inline attending {
namespace {

MutableTensorView output(std::string_view name, const TensorView& view) {
  require_distinct(name, view);
  return {writable(view.bytes()), view.dtype(), view.shape(), view.strides()};
}

// An output, checked, in the form of the inputs.
TensorView in_form(const AttentionInputs& inputs, const OutputDescription& kind, const TensorView& view,
                   const AttentionExtras& extras) {
  if (kind.is_index) {
    if (view.dtype() != Dtype::i64) fail("{} is {}; it must be i64", kind.name, name_of(view.dtype()));
  } else {
    inputs.require_accumulation(kind.name, view);
  }
  switch (kind.of) {
    case OutputOf::rows:
      return inputs.query_scalars(kind.name, view);
    case OutputOf::pairs:
      return inputs.query_rows(kind.name, view, inputs.k_len);
    case OutputOf::top:
      return inputs.query_rows(kind.name, view, extras.top_keys.rank() == 0 ? 0 : extras.top_keys.size(-1));
    case OutputOf::keys:
      if (inputs.packed && inputs.paged) fail("{} is not supported for packed queries with paged keys", kind.name);
      return inputs.key_scalars(kind.name, view);
    case OutputOf::chosen:
      if (extras.rows.dtype() != Dtype::i64 || extras.rows.rank() != 2 || extras.rows.size(1) != 3) {
        fail("rows must be i64 [n, 3], got {} {}", name_of(extras.rows.dtype()), to_string(extras.rows.shape()));
      }
      require_shape(kind.name, view, {extras.rows.size(0), inputs.k_len});
      require_unit_stride(kind.name, view);
      return view;
    case OutputOf::blocks:
      break;
  }
  const Dims batch = inputs.mask_batch();
  const int rank = batch.size() + 3;
  if (view.rank() > rank || view.rank() < std::min(rank, 2)) {
    fail("{} {} has the wrong rank for batch {}", kind.name, to_string(view.shape()), to_string(batch));
  }
  const TensorView blocks = with_rank(view, rank);
  require_shape(kind.name, blocks, concatenate(batch, {inputs.heads, blocks.size(-2), blocks.size(-1)}));
  require_unit_stride(kind.name, blocks);
  return blocks;
}

}  // namespace

AttentionOutputs::AttentionOutputs(const AttentionInputs& inputs, const MutableTensorView& out,
                                   const AttentionExtras& extras, MemoryCount& memory) {
  if (out.dtype() != inputs.storage && out.dtype() != inputs.accumulation) {
    fail("out has type {}; it must be {} like query, or {}", name_of(out.dtype()), name_of(inputs.storage),
         name_of(inputs.accumulation));
  }
  out_ = output("out", inputs.query_rows("out", out, inputs.value_dim));
  if (static_cast<bool>(extras.rows) != static_cast<bool>(extras.row_weights)) {
    fail("rows and row_weights must be given together, only one was");
  }
  if (static_cast<bool>(extras.top_keys) != static_cast<bool>(extras.top_weights)) {
    fail("top_keys and top_weights must be given together, only one was");
  }
  const auto list = attention_outputs();
  for (std::size_t n = 0; n < list.size(); ++n) {
    const MutableTensorView& given = extras.*list[n].view;
    if (!given) continue;
    const TensorView view = in_form(inputs, list[n], given, extras);
    if (list[n].of != OutputOf::blocks || view.element_count() > 0) views_[n] = output(list[n].name, view);
    has_planes_ = has_planes_ || list[n].of == OutputOf::pairs;
  }
  if (extras.rows) set_chosen_rows(inputs, extras.rows, memory);
}

// Each number is read once: the caller's memory may change after it was checked.
void AttentionOutputs::set_chosen_rows(const AttentionInputs& inputs, const TensorView& rows, MemoryCount& memory) {
  memory.keep(static_cast<std::size_t>(rows.size(0)) * sizeof(ChosenRow));
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

void AttentionOutputs::need_log_sum_exp(const AttentionInputs& inputs, MemoryCount& memory) {
  if (views_[0]) return;
  memory.keep(static_cast<std::size_t>(element_count(inputs.query_shape())) * size_of(inputs.accumulation));
  own_log_sum_exp_ = Tensor::uninitialized(inputs.query_shape(), inputs.accumulation);
  views_[0] = own_log_sum_exp_;
}

void AttentionOutputs::set(CommonTask& common) const {
  common.out_type = out_.dtype();
  const auto list = attention_outputs();
  for (std::size_t n = 0; n < list.size(); ++n) {
    if (!views_[n]) continue;
    if (list[n].of == OutputOf::top) common.top_count = views_[n].size(-1);
    if (list[n].of != OutputOf::blocks) continue;
    common.block_rows = views_[n].size(-2);
    common.block_columns = views_[n].size(-1);
    common.block_step = views_[n].stride(-2);
  }
}

namespace {

bool is_among(const OutputDescription& kind, TaskOutputs wanted) {
  switch (wanted) {
    case TaskOutputs::all:
      return true;
    case TaskOutputs::statistics:
      return kind.is_statistic;
    case TaskOutputs::chosen_rows:
      return kind.of == OutputOf::chosen;
  }
  return false;
}

}  // namespace

void AttentionOutputs::set(AttentionTask& task, const AttentionInputs& inputs, std::int64_t b, std::int64_t h,
                           TaskOutputs wanted) const {
  // Its steps are the strides of this dimension.
  const auto of_queries = [&](const MutableTensorView& view, int dim) {
    return OutputRows{writable(inputs.query_address(view, b, h)), view.stride(dim)};
  };
  if (wanted == TaskOutputs::all) task.out = of_queries(out_, -2);
  const auto list = attention_outputs();
  for (std::size_t n = 0; n < list.size(); ++n) {
    const MutableTensorView& view = views_[n];
    if (!view || !is_among(list[n], wanted)) continue;
    switch (list[n].of) {
      case OutputOf::rows:
        task.*list[n].rows = of_queries(view, -1);
        break;
      case OutputOf::pairs:
      case OutputOf::top:
        task.*list[n].rows = of_queries(view, -2);
        break;
      case OutputOf::keys:
        task.*list[n].rows = {writable(inputs.key_address(view, b, h)), view.stride(-1)};
        break;
      case OutputOf::chosen:
        task.*list[n].rows = {view.bytes(), view.stride(0)};
        break;
      case OutputOf::blocks:
        task.block_weights = writable(head_address(view, inputs.mask_batch(), b, h));
    }
  }
}

namespace {

// std::invalid_argument for parameters of the score that do not fit.
void check_score(const AttentionInputs& inputs, const Score& score) {
  const std::int64_t query_dim = inputs.query_dim, key_dim = inputs.key_dim;
  const auto require = [&](std::string_view name, const TensorView& view, const Dims& shape) {
    require_shape(name, view, shape);
    require_unit_stride(name, view);
    if (view.dtype() != inputs.accumulation) {
      fail("{} is {}; for {} inputs it must be {}", name, name_of(view.dtype()), name_of(inputs.storage),
           name_of(inputs.accumulation));
    }
    if (view.size(0) < 1 || view.size(0) > kMaxDim)
      fail("{} {}: sizes must be 1 to {}", name, to_string(shape), kMaxDim);
  };
  switch (score.kind()) {
    case Score::Kind::scaled_dot:
    case Score::Kind::dot:
      break;
    case Score::Kind::bilinear:
      require("score w", score.w_query(), {query_dim, key_dim});
      break;
    case Score::Kind::additive:
      require("score w_query", score.w_query(), {score.v().size(0), query_dim});
      require("score w_key", score.w_key(), {score.v().size(0), key_dim});
      require("score v", score.v(), {score.v().size(0)});
      break;
    case Score::Kind::concat:
      require("score w", score.w_query(), {score.v().size(0), query_dim + key_dim});
      require("score v", score.v(), {score.v().size(0)});
      break;
  }
}

}  // namespace

int AttentionCall::useful_threads(double products) const {
  // What a head of a single query takes beside its keys, in multiply-adds of their time.
  constexpr double kSingleQuery = 30'000;
  double pairs = 0, queries = 0, keys = 0, single = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto rows = static_cast<double>(query_length(b)), columns = static_cast<double>(key_length(b));
    pairs += rows * columns;
    queries += rows;
    keys += columns;
    single += is_single_query(b) ? kSingleQuery : 0;
  }
  const auto dims = static_cast<double>(key_dim + value_dim), all_heads = static_cast<double>(heads);
  const double elements = dims * (queries * all_heads + keys * static_cast<double>(kv_heads));
  return worth_waking(threads, all_heads * (pairs * products * dims / 2 + single),
                      elements * static_cast<double>(size_of(storage)));
}

AttentionCall::AttentionCall(const TensorView& q, const TensorView& k, const TensorView& v,
                             const AttentionOptions& options)
    : AttentionInputs(q, k, v, options),
      empty_rows(options.empty_rows),
      logit_function_(options.logit_function),
      rules_(*this, options, memory_) {
  check_score(*this, options.score);
  common_.query_dim = query_dim;
  common_.key_dim = key_dim;
  common_.value_dim = value_dim;
  common_.row_length = k_len;
  set_score(options.score);
  const bool scaled = options.score.kind() == Score::Kind::scaled_dot;
  common_.scale = options.scale.value_or(scaled ? 1 / std::sqrt(static_cast<double>(query_dim)) : 1.0);
  if (!std::isfinite(common_.scale)) fail("scale must be finite, got {}", common_.scale);
  common_.soft_cap = options.soft_cap;
  if (!(common_.soft_cap >= 0) || !std::isfinite(common_.soft_cap)) {
    fail("soft_cap must be finite, 0 (off) or more, got {}", common_.soft_cap);
  }
  common_.dropout = DropoutRule(options.dropout);
  if (logit_function_) common_.logit_function = &logit_function_;
  if (options.precision != Precision::exact && why_not_reduced(*this, options).empty()) precision = options.precision;
  rules_.set(common_);
}

void AttentionCall::set_score(const Score& score) {
  common_.score = score.kind();
  const auto rows = [&](const TensorView& view) { return Rows{view.bytes(), accumulation, view.stride(0)}; };
  if (score.v()) common_.hidden = score.v().size(0);
  if (score.w_query()) common_.score_w_query = rows(score.w_query());
  if (score.w_key()) common_.score_w_key = rows(score.w_key());
  if (score.kind() == Score::Kind::concat) {
    const auto skipped = query_dim * static_cast<std::int64_t>(size_of(accumulation));
    common_.score_w_key = {common_.score_w_query.data + skipped, accumulation, common_.score_w_query.step};
  }
  common_.score_v = score.v().bytes();
}

AttentionCall::AttentionCall(const TensorView& q, const TensorView& k, const TensorView& v,
                             const AttentionOptions& options, const MutableTensorView& out,
                             const AttentionExtras& extras)
    : AttentionCall(q, k, v, options) {
  outputs_.emplace(*this, out, extras, memory_);
  outputs_->set(common_);
  if (empty_rows == EmptyRows::nan) outputs_->need_log_sum_exp(*this, memory_);
}

bool AttentionCall::may_fold_heads() const {
  return is_dot_product(common_.score) && !common_.dropout.is_on() && rules_.are_alike_for_heads() &&
         !logit_function_ && !(outputs_ && outputs_->has_planes());
}

AttentionTask AttentionCall::task(std::int64_t b, std::int64_t h, TaskOutputs wanted) const {
  AttentionTask task;
  set(task, b, h, wanted);
  return task;
}

void AttentionCall::set(AttentionTask& task, std::int64_t b, std::int64_t h, TaskOutputs wanted) const {
  task.common = &common_;
  set_rows(task, b, h);
  rules_.set(task, b, h);
  if (outputs_) outputs_->set(task, *this, b, h, wanted);
  choose_kernel(task);
}

AttentionTask AttentionCall::longest(std::int64_t queries) const {
  AttentionTask task = this->task(0, 0);
  task.q_len = queries;
  task.k_len = k_len;
  choose_kernel(task);
  return task;
}

}  // namespace qkv::inline attending

namespace qkv {

std::string_view name_of(Precision precision) {
  return std::find_if(std::begin(kPrecisions), std::end(kPrecisions),
                      [&](const auto& entry) { return entry.second == precision; })
      ->first;
}

bool has_reduced_precision() {
  ensure_target();
  return uses_fused();
}

inline namespace attending {
namespace {

BlockProduct product_of(const AttentionTask& task) {
  if (task.precision == Precision::reduced_pairs) return BlockProduct::reduced_pairs;
  if (task.precision == Precision::reduced) return uses_amx() ? BlockProduct::reduced_tiles : BlockProduct::reduced;
  if (size_of(task.key.type) != 2 || !is_dot_product(task.common->score)) return BlockProduct::exact;
  if (uses_bf16_pairs()) return task.key.type == Dtype::bf16 ? BlockProduct::pairs : BlockProduct::exact;
  const bool tiles = uses_amx() && tile_words(task) <= kMostTileWords;
  return tiles ? BlockProduct::tiles : BlockProduct::exact;
}

}  // namespace

void AttentionCall::choose_kernel(AttentionTask& task) const {
  task.precision = is_alone(task.q_len) ? Precision::exact : precision;
  task.product = product_of(task);
  task.is_plain = !is_additive(common_.score) && common_.soft_cap == 0 && common_.bias_count == 0 &&
                  common_.table_count == 0 && common_.logit_function == nullptr && task.alibi_slope == 0 &&
                  std::abs(common_.scale) >= 1e-30;
}

std::string why_not_reduced(const AttentionInputs& inputs, const AttentionOptions& options) {
  ensure_target();
  if (!uses_fused()) return "target " + selected_target() + " has no fused multiply-add";
  if (options.precision == Precision::reduced_pairs && !uses_bf16_pairs()) {
    return "target " + selected_target() + " does not multiply pairs of bf16";
  }
  if (inputs.storage == Dtype::f64) return "f64 is not reduced";
  if (is_additive(options.score.kind())) return "this score does not multiply queries by keys";
  if (std::max(inputs.key_dim, inputs.value_dim) > kMostReducedDim)
    return "head and value sizes above 512 are not reduced";
  return {};
}

}  // namespace attending

}  // namespace qkv
