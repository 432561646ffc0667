// The projections of multi-head attention to its heads, block of rows by block of rows, and their parameters.
#include "layers/heads/head_projections.h"

#include <algorithm>

#include "layers/basic/rotary_angles.h"
#include "layers/heads/head_operands.h"

namespace qkv {
namespace {

// What a projection has of a parameter, in the view of the whole; not given if either is not there.
template <class View>
View share_of(const std::optional<ParameterShare>& share, const View& whole) {
  return share && whole ? whole.slice(0, share->begin, share->end) : View();
}

}  // namespace

void MultiHeadAttention::multiply(int role, const InputBlock& rows, std::int64_t first_head,
                                  const MutableTensorView& out, int threads) const {
  const ProjectionLayout& own = layout_->roles[role];
  const auto bias_of = [&](const std::optional<ParameterShare>& share) {
    const TensorView bias = share ? share_of(share, parameters_[share->parameter].own().value.view()) : TensorView();
    return bias ? bias.reshape({bias.element_count()}) : bias;
  };
  Tensor stage;
  std::optional<InputBlock> of_stage;
  if (own.shared_weight) {
    const PackedMatrix& shared = parameters_[own.shared_weight->parameter].part(own.shared_weight->first_part);
    stage = Tensor::uninitialized({rows.rows.size(0), shared.columns()}, rows.rows.dtype());
    rows.multiply(shared, 0, stage, {.bias = bias_of(own.shared_bias), .threads = threads});
    of_stage.emplace(stage, storage_, threads);
  }
  const InputBlock& input = of_stage ? *of_stage : rows;
  const TensorView bias = bias_of(own.bias);
  const std::int64_t first = first_head * config_.head_dim, last = first + out.size(1);
  std::size_t part = own.weight->first_part;
  for (std::int64_t begin = 0, end; begin < last; begin = end, ++part) {
    const PackedMatrix& matrix = parameters_[own.weight->parameter].part(part);
    end = begin + matrix.columns();
    const std::int64_t from = std::max(begin, first), to = std::min(end, last);
    if (from >= to) continue;
    input.multiply(matrix, from - begin, out.slice(1, from - first, to - first),
                   {.bias = bias ? bias.slice(0, from, to) : bias, .threads = threads});
  }
}

void MultiHeadAttention::project(int role, const InputBlock& rows, std::int64_t first_head, const RotaryRows& angles,
                                 std::int64_t first_row, const MutableTensorView& out,
                                 const MutableTensorView& before_norm, int threads) const {
  if (role < 2 && norms_[role]) {
    Tensor own = Tensor::uninitialized(out.shape(), out.dtype());
    multiply(role, rows, first_head, own, threads);
    if (before_norm) convert(own, before_norm);
    const MutableTensorView heads = own.view().reshape({own.element_count() / config_.head_dim, config_.head_dim});
    norms_[role]->forward(heads, {}, heads, threads);
    convert(own, out);
  } else {
    multiply(role, rows, first_head, out, threads);
  }
  if (role < 2 && angles_) angles_->rotate(angles, first_row, out.size(1) / config_.head_dim, out, 1, threads);
}

RotaryRows MultiHeadAttention::angles_of(int role, const Sequences& form, std::span<const std::int64_t> starts) const {
  return role < 2 && angles_ ? angles_->of(row_positions(form, starts), extra_key_.dtype()) : RotaryRows();
}

Tensor MultiHeadAttention::project_all(int role, const Sequences& form, std::span<const std::int64_t> starts,
                                       int threads) const {
  const LayerRows rows(std::string("multi_head_attention: ") + kRoles[role], form.rows, input_dim(config_, role));
  Tensor out = Tensor::uninitialized({rows.count(), heads_of(config_, role) * config_.head_dim}, extra_key_.dtype());
  project(role, {rows.view(), storage_, threads}, 0, angles_of(role, form, starts), 0, out, {}, threads);
  return out;
}

void MultiHeadAttention::heads_backward_in_place(int role, const Sequences& form, const Tensor& before_norm,
                                                 Tensor& grad, int threads) {
  if (angles_) angles_->rotate(angles_of(role, form), 0, heads_of(config_, role), grad, -1, threads);
  if (!norms_[role]) return;
  const Dims heads{grad.element_count() / config_.head_dim, config_.head_dim};
  Tensor grad_before = Tensor::zeros(grad.shape(), grad.dtype());
  norms_[role]->backward(before_norm.view().reshape(heads), grad.view().reshape(heads),
                         grad_before.view().reshape(heads), threads);
  grad = std::move(grad_before);
}

HeadWeights MultiHeadAttention::head_weights(int role, std::vector<Tensor>& storage) const {
  const ProjectionLayout& own = layout_->roles[role];
  const auto part = [&](const std::optional<ParameterShare>& share) {
    return share ? share_of(share, parameters_[share->parameter].value(storage.emplace_back())) : TensorView();
  };
  return {.weight = part(own.weight),
          .bias = part(own.bias),
          .shared_weight = part(own.shared_weight),
          .shared_bias = part(own.shared_bias)};
}

HeadGradients MultiHeadAttention::head_gradients(int role) {
  const ProjectionLayout& own = layout_->roles[role];
  const auto part = [&](const std::optional<ParameterShare>& share) {
    return share ? share_of(share, parameters_[share->parameter].gradient()) : MutableTensorView();
  };
  return {.weight = part(own.weight),
          .bias = part(own.bias),
          .shared_weight = part(own.shared_weight),
          .shared_bias = part(own.shared_bias)};
}

std::int64_t MultiHeadAttention::heads_at_once(std::int64_t keys, const MultiHeadAttentionOptions& options) const {
  constexpr std::int64_t kKeyValueBytes = std::int64_t{6} << 20;
  const auto is_of_pairs = [](const Mask::Part& part) {
    return part.kind == MaskKind::boolean || part.kind == MaskKind::function;
  };
  const std::int64_t all = config_.kv_heads, dim = config_.head_dim;
  if (config_.scheme != HeadScheme::packed || !options.bias.empty() || options.dropout.p > 0 ||
      std::ranges::any_of(options.mask.parts(), is_of_pairs)) {
    return all;
  }
  const std::int64_t bytes = 2 * keys * dim * static_cast<std::int64_t>(size_of(extra_key_.dtype()));
  const std::int64_t most = std::clamp<std::int64_t>(kKeyValueBytes / std::max<std::int64_t>(bytes, 1), 1, all);
  std::int64_t heads = divide_up(all, divide_up(all, most));
  for (int role = 0; role < 3; ++role) {
    const ParameterShare& weight = *layout_->roles[role].weight;
    const std::int64_t step = column_step(parameters_[weight.parameter].part(weight.first_part));
    while (heads < all && heads * dim % step != 0) ++heads;
  }
  return heads;
}

void MultiHeadAttention::project_roles(const Inputs& inputs, int begin, int end, const RotaryRows& angles,
                                       const Projected& to, int threads) const {
  const NormedBlocks rows(std::string("multi_head_attention: ") + kRoles[begin], inputs.rows(begin),
                          input_dim(config_, begin));
  for_each_row_block(rows.count(), projected_rows(storage_), threads, [&](std::int64_t first, std::int64_t last) {
    Tensor storage;
    const InputBlock block(rows.block(first, last, storage, threads), storage_, threads);
    const auto part = [&](const MutableTensorView& view) { return view ? view.slice(0, first, last) : view; };
    for (int role = begin; role < end; ++role) {
      project(role, block, to.first_kv_head * (heads_of(config_, role) / config_.kv_heads), angles, first,
              part(to.rows[role]), part(to.before_norm[role]), threads);
    }
  });
}

}  // namespace qkv
