// MultiHeadAttention: config, parameters and the order of the steps. The attention itself is in head_attention.cc.
#include "qkv/layers/multi_head_attention.h"

#include <algorithm>
#include <list>

#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "layers/basic/rotary_angles.h"
#include "layers/heads/head_attention.h"
#include "layers/heads/head_operands.h"
#include "layers/heads/head_projections.h"
#include "qkv/attention/key_value_cache.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

// The learnt row, if given, then a row of zeros, if requested.
Tensor extra_rows(const MultiHeadAttentionConfig& config, const TensorView& learnt, Dtype dtype) {
  const std::int64_t count = (config.bias_kv ? 1 : 0) + (config.zero_attention ? 1 : 0);
  Tensor rows = Tensor::zeros({count, config.kv_heads, config.head_dim}, dtype);
  if (learnt) convert(learnt.reshape({1, config.kv_heads, config.head_dim}), rows.view().slice(0, 0, 1));
  return rows;
}

// The learnt row is the first of the extra ones.
void add_learnt(const Tensor& extra, const MutableTensorView& gradient) {
  if (!gradient) return;
  const auto add = [&]<class T>(T) {
    for (std::int64_t i = 0; i < gradient.element_count(); ++i) gradient.data<T>()[i] += extra.data<T>()[i];
  };
  visit_f32_f64(gradient.dtype(), add);
}

std::vector<std::int64_t> cached_lengths(const KeyValueCache& cache) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = 0; b < cache.batch(); ++b) lengths.push_back(cache.length(b));
  return lengths;
}

// Of each sequence's queries, which have the last cached positions.
std::vector<std::int64_t> first_positions(const Sequences& query, const KeyValueCache& cache) {
  std::vector<std::int64_t> starts = cached_lengths(cache);
  const std::vector<std::int64_t> lengths = sequence_lengths(query);
  for (std::size_t b = 0; b < std::min(starts.size(), lengths.size()); ++b) starts[b] -= lengths[b];
  return starts;
}

// (sequence, head, query) of the last query of each sequence that has one.
Tensor last_rows(const std::vector<std::int64_t>& lengths, std::span<const std::int64_t> heads) {
  std::vector<std::int64_t> rows;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] == 0) continue;
    for (const std::int64_t head : heads) rows.insert(rows.end(), {static_cast<std::int64_t>(b), head, lengths[b] - 1});
  }
  return Tensor::of<std::int64_t>({std::ssize(rows) / 3, 3}, rows);
}

constexpr const char* kNorms[] = {"q_norm.", "k_norm."};

struct InputRows {
  InputRows(const std::string& name, const TensorView& x, std::int64_t size, WeightStorage storage)
      : rows(name, x, size), packed(rows.view(), storage) {}

  LayerRows rows;
  PackedRows packed;
};

}  // namespace

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionConfig& config, Weights& weights,
                                       const std::string& scope)
    : config_(checked_config(config)),
      storage_(weights.storage()),
      layout_(std::make_shared<const HeadLayout>(head_layout(config_))),
      out_({.in = config_.heads * config_.head_dim,
            .out = config_.out_dim,
            .bias = config_.bias && config_.projection_bias.out},
           weights, scope + "out_proj.") {
  for (const HeadLayout::Entry& entry : layout_->entries) {
    parameters_.emplace_back(weights, scope + entry.name, entry.shape, entry.part_rows, weights.storage());
  }
  for (int role = 0; config_.query_key_norm && role < 2; ++role) {
    norms_[role].emplace(LayerNormConfig{.dim = config_.head_dim,
                                         .epsilon = *config_.query_key_norm,
                                         .bias = false,
                                         .normalization = Normalization::rms},
                         weights, scope + kNorms[role]);
  }
  if (config_.rotary) angles_ = RotaryAngles::shared(*config_.rotary, config_.head_dim);
  make_extra_rows();
}

void MultiHeadAttention::make_extra_rows() {
  const auto learnt = [&](const std::optional<std::size_t>& i) {
    return i ? parameters_[*i].own().value.view() : TensorView();
  };
  const Dtype dtype = parameters_.front().dtype();
  extra_key_ = extra_rows(config_, learnt(layout_->bias_k), dtype);
  extra_value_ = extra_rows(config_, learnt(layout_->bias_v), dtype);
}

Tensor MultiHeadAttention::forward(const Sequences& x, const MultiHeadAttentionOptions& options,
                                   Observer* observer) const {
  return forward(x, x, x, options, observer);
}

Tensor MultiHeadAttention::forward(const Sequences& query, const Sequences& memory,
                                   const MultiHeadAttentionOptions& options, Observer* observer) const {
  return forward(query, memory, memory, options, observer);
}

Tensor MultiHeadAttention::forward(const Sequences& query, const Sequences& key, const Sequences& value,
                                   const MultiHeadAttentionOptions& options, Observer* observer) const {
  const Tensor merged = attend({query, key, value}, options, observer, nullptr);
  Tensor out = project_out(merged, query, options.threads);
  if (observer != nullptr) observer->receive("output", out);
  return out;
}

Tensor MultiHeadAttention::forward(const Sequences& query, const Sequences& key, const Sequences& value,
                                   const MultiHeadAttentionOptions& options, MultiHeadAttentionSaved& saved) const {
  saved.log_sum_exp = Tensor::uninitialized(log_sum_exp_shape(query, config_.heads), extra_key_.dtype());
  saved.merged = attend({query, key, value}, options, nullptr, &saved);
  return project_out(saved.merged, query, options.threads);
}

void MultiHeadAttention::forward(const Sequences& query, const LayerNorm* norm, const std::optional<Sequences>& memory,
                                 const MultiHeadAttentionOptions& options, Observer* observer,
                                 const RowSink& put) const {
  const Sequences& keys = memory ? *memory : query;
  const Tensor merged = attend({query, keys, keys, norm, memory ? nullptr : norm}, options, observer, nullptr);
  if (observer != nullptr) {
    Tensor out = project_out(merged, query, options.threads);
    observer->receive("output", out);
    return put(0, out.view().reshape({merged.size(0), config_.out_dim}));
  }
  for_each_row_block(merged.size(0), projected_rows(storage_), options.threads,
                     [&](std::int64_t begin, std::int64_t end) {
                       put(begin, out_.forward(merged.view().slice(0, begin, end), options.threads));
                     });
}

Tensor MultiHeadAttention::project_out(const Tensor& merged, const Sequences& query, int threads) const {
  Tensor out = Tensor::uninitialized(with_last(query.rows.shape(), config_.out_dim), merged.dtype());
  out_.forward(merged, out.view().reshape({merged.size(0), config_.out_dim}), threads);
  return out;
}

Mask MultiHeadAttention::mask_of(const MultiHeadAttentionOptions& options) const {
  return config_.window ? options.mask & Mask::window(config_.window->left, config_.window->right) : options.mask;
}

HeadAttention MultiHeadAttention::middle(const Inputs& inputs, const MultiHeadAttentionSaved& saved) const {
  return {.config = config_,
          .query = {saved.query, inputs.query},
          .key = {saved.key, inputs.key},
          .value = {saved.value, inputs.value},
          .extra_key = extra_key_,
          .extra_value = extra_value_};
}

Tensor MultiHeadAttention::attend(const Inputs& inputs, const MultiHeadAttentionOptions& options, Observer* observer,
                                  MultiHeadAttentionSaved* saved) const {
  const StopScope stop(options.stop);
  if (observer != nullptr) {
    out_.visit([&](const std::string& name, const Parameter& own) {
      if (name == "weight") observer->receive("out_weight", own.value);
    });
  }
  if (config_.rotary && options.mask.align() == Align::bottom_right) {
    refuse("multi_head_attention", "rotary positions count from the start of each sequence; the mask must be top_left");
  }
  MultiHeadAttentionOptions own = options;
  own.mask = mask_of(options);
  const std::int64_t dim = config_.head_dim;
  const auto rows_of = [&](int role, std::int64_t kv_heads) {
    const Dims padded = batch_and_length(inputs[role]);
    const std::int64_t heads = heads_of(config_, role) / config_.kv_heads * kv_heads;
    return Tensor::uninitialized({padded[0] * padded[1], heads * dim}, extra_key_.dtype());
  };
  const std::int64_t all = config_.kv_heads;
  const bool in_place =
      observer == nullptr && saved == nullptr && extra_key_.size(0) == 0 && !options.weights && !options.mean_weights;
  const std::int64_t step = in_place ? heads_at_once(rows_of(1, 0).size(0), own) : all;
  Tensor merged = rows_of(0, all);
  MultiHeadAttentionSaved unkept, &kept = saved != nullptr ? *saved : unkept;
  if (!in_place) kept.query = rows_of(0, all);
  kept.key = rows_of(1, step);
  kept.value = rows_of(2, step);
  if (saved != nullptr && config_.query_key_norm) {
    kept.query_before_norm = rows_of(0, all);
    kept.key_before_norm = rows_of(1, all);
  }
  const auto shares = [&](int role, int other) {
    return inputs.share(role, other) && input_dim(config_, role) == input_dim(config_, other);
  };
  RotaryRows angles[3];
  for (int role = 0; role < 2; ++role) {
    if (role == 0 || !shares(0, 1)) angles[role] = angles_of(role, inputs[role]);
  }
  MultiHeadAttentionConfig part = config_;  // of some heads
  for (std::int64_t begin = 0; begin < all; begin += step) {
    part.kv_heads = std::min(step, all - begin);
    part.heads = config_.heads / all * part.kv_heads;
    const auto columns = [&](Tensor& rows, std::int64_t first, std::int64_t heads) {
      return rows.rank() == 2 ? rows.view().slice(1, first * dim, (first + heads) * dim) : MutableTensorView();
    };
    const auto queries = [&](Tensor& rows) { return columns(rows, config_.heads / all * begin, part.heads); };
    const MutableTensorView out = queries(merged);
    const Projected to{.first_kv_head = begin,
                       .rows = {in_place ? out : queries(kept.query), columns(kept.key, 0, part.kv_heads),
                                columns(kept.value, 0, part.kv_heads)},
                       .before_norm = {queries(kept.query_before_norm), columns(kept.key_before_norm, 0, part.kv_heads),
                                       MutableTensorView()}};
    for (int role = 0, end; role < 3; role = end) {
      for (end = role + 1; end < 3 && shares(role, end);) ++end;
      project_roles(inputs, role, end, angles[role], to, options.threads);
    }
    attend_heads({.config = part,
                  .query = {to.rows[0], inputs.query},
                  .key = {to.rows[1], inputs.key},
                  .value = {to.rows[2], inputs.value},
                  .extra_key = extra_key_,
                  .extra_value = extra_value_,
                  .precision = saved == nullptr ? precision_of(storage_) : Precision::exact},
                 out, saved == nullptr ? MutableTensorView() : saved->log_sum_exp.view(), own, observer);
  }
  if (observer != nullptr) {
    observer->receive("merged", merged.view().reshape(with_last(inputs.query.rows.shape(), merged.size(1))));
  }
  return merged;
}

void MultiHeadAttention::backward(const Sequences& query, const Sequences& key, const Sequences& value,
                                  const MultiHeadAttentionOptions& options, const MultiHeadAttentionSaved& saved,
                                  const TensorView& grad_out, const MultiHeadAttentionGradients& gradients,
                                  Observer* observer) {
  const StopScope stop(options.stop);
  const Inputs inputs{query, key, value};
  const LayerRows grad_rows("multi_head_attention: gradient", grad_out, config_.out_dim);
  Tensor grad_merged = Tensor::zeros(saved.merged.shape(), saved.merged.dtype());
  out_.backward(saved.merged, grad_rows.view(), grad_merged, options.threads);
  if (observer != nullptr) {
    observer->receive("heads_gradient", split_heads(grad_merged.view(), query, config_.heads));
  }
  MultiHeadAttentionOptions own = options;
  own.mask = mask_of(options);
  HeadAttentionGradients middle_gradients = attend_heads_backward(
      middle(inputs, saved), {.merged = saved.merged, .log_sum_exp = saved.log_sum_exp, .grad_merged = grad_merged},
      own);
  heads_backward_in_place(0, query, saved.query_before_norm, middle_gradients.query, options.threads);
  heads_backward_in_place(1, key, saved.key_before_norm, middle_gradients.key, options.threads);

  // Inputs that are one another, as in self-attention, are packed once.
  std::list<InputRows> packed;
  PackedRows* rows_of[3] = {};
  const Tensor* projected[] = {&middle_gradients.query, &middle_gradients.key, &middle_gradients.value};
  const MutableTensorView* outputs[] = {&gradients.query, &gradients.key, &gradients.value};
  std::vector<Tensor> unpacked;
  for (int role = 0; role < 3; ++role) {
    const TensorView& rows = inputs[role].rows;
    for (int earlier = 0; earlier < role; ++earlier) {
      if (is_same(rows, inputs[earlier].rows)) rows_of[role] = rows_of[earlier];
    }
    const std::string name = std::string("multi_head_attention: ") + kRoles[role];
    if (rows_of[role] == nullptr) {
      rows_of[role] = &packed.emplace_back(name, rows, input_dim(config_, role), storage_).packed;
    }
    heads_backward(*rows_of[role], head_weights(role, unpacked), *projected[role], head_gradients(role),
                   *outputs[role] ? output_rows(name, "its gradient", *outputs[role], rows.shape()) : *outputs[role],
                   options.threads);
  }
  add_learnt(middle_gradients.table, options.table_gradient);
  if (config_.bias_kv) {
    add_learnt(middle_gradients.extra_key, parameters_[*layout_->bias_k].gradient());
    add_learnt(middle_gradients.extra_value, parameters_[*layout_->bias_v].gradient());
  }
}

KeyValueCache MultiHeadAttention::make_cache(std::int64_t batch, std::optional<Dtype> dtype) const {
  if (extra_key_.element_count() > 0) {
    refuse("multi_head_attention", "bias_kv and zero_attention are not supported with a cache");
  }
  return KeyValueCache({.batch = batch,
                        .kv_heads = config_.kv_heads,
                        .head_dim = config_.head_dim,
                        .dtype = dtype.value_or(extra_key_.dtype())});
}

void MultiHeadAttention::append(const Sequences& memory, KeyValueCache& cache, int threads) const {
  const Tensor key = project_all(1, memory, cached_lengths(cache), threads);
  const Tensor value = project_all(2, memory, {}, threads);
  const TensorView keys = split_heads(key.view(), memory, config_.kv_heads);
  const TensorView values = split_heads(value.view(), memory, config_.kv_heads);
  memory.ragged() ? cache.append(keys, values, memory.offsets) : cache.append(keys, values);
}

Tensor MultiHeadAttention::forward(const Sequences& query, const KeyValueCache& cache,
                                   const MultiHeadAttentionOptions& options, LastWeights* last,
                                   CacheQueries queries) const {
  const StopScope stop(options.stop);
  const bool singly = queries == CacheQueries::singly;
  if (options.weights || options.mean_weights) {
    refuse("multi_head_attention", "a cache gives weights of the last queries alone; call forward with the memory");
  }
  if (singly && !query.ragged()) refuse("multi_head_attention", "single queries over a cache must be ragged");
  Tensor projected = project_all(0, query, first_positions(query, cache), options.threads);
  // Queries have the type of the keys.
  const Dtype type = projected.dtype(), kept = cache.keys().dtype();
  if (kept != type) projected = convert(projected, kept);
  Tensor merged = Tensor::uninitialized(projected.shape(), kept), rows_wanted;
  AttentionExtras extras;
  if (last != nullptr && !last->heads.empty()) {
    rows_wanted = last_rows(
        singly ? std::vector<std::int64_t>(static_cast<std::size_t>(projected.size(0)), 1) : sequence_lengths(query),
        last->heads);
    const std::vector<std::int64_t> lengths = cached_lengths(cache);
    const std::int64_t keys = *std::ranges::max_element(lengths);
    last->weights = Tensor::uninitialized({rows_wanted.size(0), keys}, type);
    extras = {.rows = rows_wanted, .row_weights = last->weights};
  }
  const AttentionOptions own{.mask = mask_of(options),
                             .bias = options.bias,
                             .scale = config_.scale,
                             .soft_cap = config_.soft_cap,
                             .empty_rows = options.empty_rows,
                             .offsets_query = query.offsets,
                             .threads = options.threads,
                             .stop = options.stop};
  (singly ? attention_singly : static_cast<decltype(&attention_singly)>(attention))(
      split_heads(projected.view(), query, config_.heads), cache, split_heads(merged.view(), query, config_.heads), own,
      extras);
  if (kept != type) merged = convert(merged, type);
  return project_out(merged, query, options.threads);
}

MultiHeadAttention MultiHeadAttention::with_scheme(HeadScheme scheme) const {
  MultiHeadAttentionConfig config = config_;
  config.scheme = scheme;
  const HeadLayout layout = head_layout(config);
  std::map<std::string, Tensor> tensors;
  const ParameterVisitor keep = [&](const std::string& name, const Parameter& own) { tensors[name] = own.value; };
  out_.visit(keep, "out_proj.");
  for (int role = 0; role < 2; ++role) {
    if (norms_[role]) norms_[role]->visit(keep, kNorms[role]);
  }
  std::vector<std::vector<Tensor>> parts(layout.entries.size());
  if (config.bias_kv) {
    parts[*layout.bias_k].push_back(parameters_[*layout_->bias_k].own().value);
    parts[*layout.bias_v].push_back(parameters_[*layout_->bias_v].own().value);
  }
  for (int role = 0; role < 3; ++role) {
    std::vector<Tensor> unpacked;
    const OwnedHeadWeights packed = fold_heads(head_weights(role, unpacked));
    const HeadWeights view{.weight = packed.at("weight"),
                           .bias = has_bias(config, role) ? packed.at("bias").view() : TensorView()};
    OwnedHeadWeights unfolded = unfold_heads(view, scheme, heads_of(config, role));
    const ProjectionLayout& own = layout.roles[role];
    const std::pair<const char*, const std::optional<ParameterShare>&> shares[] = {{"weight", own.weight},
                                                                                   {"bias", own.bias},
                                                                                   {"shared_weight", own.shared_weight},
                                                                                   {"shared_bias", own.shared_bias}};
    for (const auto& [name, share] : shares) {
      if (share) parts[share->parameter].push_back(std::move(unfolded.at(name)));
    }
  }
  for (std::size_t i = 0; i < parts.size(); ++i) tensors[layout.entries[i].name] = stack_rows(std::move(parts[i]));
  Weights weights(std::move(tensors), "multi_head_attention", extra_key_.dtype());
  return MultiHeadAttention(config, weights);
}

void MultiHeadAttention::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) walk(parameters_[i], scope + layout_->entries[i].name);
  for (int role = 0; role < 2; ++role) walk(norms_[role], scope + kNorms[role]);
  walk(out_, scope + "out_proj.");
  if (walk.updater != nullptr) make_extra_rows();
}

}  // namespace qkv
