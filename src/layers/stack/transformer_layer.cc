// TransformerLayer: forward and backward through its sublayers, and token by token against cached keys and values.
#include "qkv/layers/transformer_layer.h"

#include "core/refuse.h"
#include "layers/basic/rows.h"
#include "layers/basic/scoped_observer.h"
#include "layers/heads/head_operands.h"
#include "layers/stack/layer_parts.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

// The sum of two sublayers of the same input, in training and else.
template <class First, class Second>
auto training_side_by_side(const First& first, const Second& second, int threads) {
  return [&first, &second, threads](const TensorView& rows) {
    Tensor sum = first(rows);
    add_to(sum, second(rows), threads);
    return sum;
  };
}

// The result of a sublayer of x, as rows.
MutableTensorView rows_of(Tensor& result) {
  return result.view().reshape({result.element_count() / result.size(-1), result.size(-1)});
}

Residual::Sublayer side_by_side(const Residual::Sublayer& first, const Residual::Sublayer& second, int threads) {
  return [&first, &second, threads](const NormedRows& input, const RowSink& put) {
    Tensor sum = Tensor::uninitialized(input.rows.shape(), input.rows.dtype());
    const MutableTensorView rows = rows_of(sum);
    const auto part = [&](std::int64_t begin, const TensorView& block) {
      return rows.slice(0, begin, begin + block.size(0));
    };
    first(input, [&](std::int64_t begin, const MutableTensorView& block) { convert(block, part(begin, block)); });
    second(input, [&](std::int64_t begin, const MutableTensorView& block) {
      add_to(part(begin, block), block, threads);
      put(begin, part(begin, block));
    });
  };
}

// A sublayer whose input and result are there as a whole.
template <class Whole>
Residual::Sublayer as_a_whole(const Whole& whole, int threads) {
  return [&whole, threads](const NormedRows& input, const RowSink& put) {
    Tensor storage, out = whole(normed(input, storage, threads));
    put(0, rows_of(out));
  };
}

}  // namespace

TransformerLayerInput::TransformerLayerInput(const Sequences& rows, const Sequences& memory_rows,
                                             const DecoderLayerOptions& options)
    : x(rows),
      self{.mask = options.self_mask, .bias = options.self_bias, .threads = options.threads, .stop = options.stop},
      memory(memory_rows),
      to_memory{
          .mask = options.memory_mask, .bias = options.memory_bias, .threads = options.threads, .stop = options.stop} {}

void TransformerLayerCache::reorder(std::span<const std::int64_t> parents) {
  self.reorder(parents);
  if (memory) memory->reorder(parents);
}

void TransformerLayerCache::reorder(std::span<const std::int64_t> parents, std::span<const std::int64_t> lengths) {
  if (memory) refuse("transformer_layer", "a memory has no first tokens to go on from");
  self.reorder(parents, lengths);
}

TransformerLayer::TransformerLayer(const Config& config, LayerMemory memory, Weights& weights, const std::string& scope)
    : self_attention_(self_attention_config(config), weights, scope + "self_attn."),
      memory_attention_(part_if<MultiHeadAttention>(memory == LayerMemory::present, attention_config(config), weights,
                                                    scope + "multihead_attn.")),
      feed_forward_(feed_forward_config(config), weights, scope),
      self_residual_(norm_config(config), config.attention_norm ? config.norm_order : NormOrder::none, weights,
                     scope + "norm1.", config.layer_scale),
      memory_residual_(part_if<Residual>(memory == LayerMemory::present, norm_config(config), config.norm_order,
                                         weights, scope + "norm2.", config.layer_scale)),
      feed_forward_residual_(part_if<Residual>(!is_parallel(config.norm_order), norm_config(config), config.norm_order,
                                               weights, scope + (memory_residual_ ? "norm3." : "norm2."),
                                               config.layer_scale)),
      parallel_norm_(part_if<LayerNorm>(config.norm_order == NormOrder::parallel_norms, norm_config(config), weights,
                                        scope + "norm2.")) {
  if (!feed_forward_residual_ && memory_attention_) {
    refuse("transformer_layer", "norm_order=parallel does not support cross-attention");
  }
}

void TransformerLayer::check(bool memory) const {
  if (memory == memory_attention_.has_value()) return;
  refuse("transformer_layer", "{}",
         memory ? "it has no attention to a memory; pass none" : "it attends to a memory; pass one");
}

Tensor TransformerLayer::run(const TransformerLayerInput& in, Observer* observer) const {
  Tensor x = Tensor::copy(in.x.rows);
  run(in, x, observer);
  return x;
}

void TransformerLayer::run(const TransformerLayerInput& in, Tensor& x, Observer* observer) const {
  const StopScope stop(in.self.stop);
  check(in.memory.has_value());
  const int threads = in.self.threads;
  const auto receive = [&](std::string_view name, const Tensor& value) {
    if (observer != nullptr) observer->receive(name, value);
  };
  const auto attend = [&](const NormedRows& input, const RowSink& put) {
    observed(observer, in.memory ? "self." : "", [&](Observer* scoped) {
      self_attention_.forward(with_rows(in.x, input.rows), input.norm, std::nullopt, in.self, scoped, put);
    });
  };
  const auto attend_memory = [&](const NormedRows& input, const RowSink& put) {
    observed(observer, "memory.", [&](Observer* scoped) {
      memory_attention_->forward(with_rows(in.x, input.rows), input.norm, in.memory, in.to_memory, scoped, put);
    });
  };
  const auto feed = [&](const NormedRows& input, const RowSink& put) {
    const NormedRows own = parallel_norm_ ? NormedRows{x, &*parallel_norm_} : input;
    if (observer == nullptr) return feed_forward_.forward(own, put, threads);
    Tensor storage, fed = feed_forward_.forward(normed(own, storage, threads), threads);
    receive("feed_forward", fed);
    put(0, rows_of(fed));
  };
  if (!feed_forward_residual_) {
    self_residual_.forward(x, side_by_side(attend, feed, threads), threads);
    return receive("feed_forward_norm", x);
  }
  self_residual_.forward(x, attend, threads);
  receive(in.memory ? "self_norm" : "attention_norm", x);
  if (in.memory) {
    memory_residual_->forward(x, attend_memory, threads);
    receive("memory_norm", x);
  }
  feed_forward_residual_->forward(x, feed, threads);
  receive("feed_forward_norm", x);
}

Tensor TransformerLayer::run(const TransformerLayerInput& in, const Dropout& dropout, Saved& saved) const {
  const StopScope stop(in.self.stop);
  check(in.memory.has_value());
  const int threads = in.self.threads;
  const auto at = [&](DropoutSite site) { return dropout_at(dropout, site); };
  const auto attend = [&](const TensorView& rows) {
    const Sequences x = with_rows(in.x, rows);
    return self_attention_.forward(x, x, x, with_dropout(in.self, at(DropoutSite::self_weights)), saved.self_attention);
  };
  const auto attend_memory = [&](const TensorView& rows) {
    return memory_attention_->forward(with_rows(in.x, rows), *in.memory, *in.memory,
                                      with_dropout(in.to_memory, at(DropoutSite::memory_weights)),
                                      saved.memory_attention);
  };
  const auto feed = [&](const TensorView& rows) {
    if (parallel_norm_) saved.parallel_normed = parallel_norm_->forward(in.x.rows, {}, threads);
    return feed_forward_.forward(parallel_norm_ ? TensorView(saved.parallel_normed) : rows, at(DropoutSite::activation),
                                 saved.feed_forward, threads);
  };
  if (!feed_forward_residual_) {
    return self_residual_.forward(in.x.rows, training_side_by_side(attend, feed, threads),
                                  at(DropoutSite::self_residual), saved.self_residual, threads);
  }
  saved.after_self =
      self_residual_.forward(in.x.rows, attend, at(DropoutSite::self_residual), saved.self_residual, threads);
  if (in.memory) {
    saved.after_memory = memory_residual_->forward(saved.after_self, attend_memory, at(DropoutSite::memory_residual),
                                                   saved.memory_residual, threads);
  }
  return feed_forward_residual_->forward(in.memory ? saved.after_memory : saved.after_self, feed,
                                         at(DropoutSite::feed_forward_residual), saved.feed_forward_residual, threads);
}

Tensor TransformerLayer::run_backward(const TransformerLayerInput& in, const Dropout& dropout, const Saved& saved,
                                      const TensorView& grad_out, const MutableTensorView& grad_memory,
                                      Observer* observer) {
  const StopScope stop(in.self.stop);
  check(in.memory.has_value());
  const int threads = in.self.threads;
  const auto at = [&](DropoutSite site) { return dropout_at(dropout, site); };
  const auto feed = [&](const TensorView& rows, const TensorView& grad, const MutableTensorView& grad_rows) {
    feed_forward_.backward(rows, at(DropoutSite::activation), saved.feed_forward, grad, grad_rows, threads);
  };
  const auto attend_memory = [&](const TensorView& rows, const TensorView& grad, const MutableTensorView& grad_rows) {
    observed(observer, "memory.", [&](Observer* scoped) {
      memory_attention_->backward(with_rows(in.x, rows), *in.memory, *in.memory,
                                  with_dropout(in.to_memory, at(DropoutSite::memory_weights)), saved.memory_attention,
                                  grad, {grad_rows, grad_memory, grad_memory}, scoped);
    });
  };
  const auto attend = [&](const TensorView& rows, const TensorView& grad, const MutableTensorView& grad_rows) {
    const Sequences x = with_rows(in.x, rows);
    observed(observer, in.memory ? "self." : "", [&](Observer* scoped) {
      self_attention_.backward(x, x, x, with_dropout(in.self, at(DropoutSite::self_weights)), saved.self_attention,
                               grad, {grad_rows, grad_rows, grad_rows}, scoped);
    });
  };
  const auto zeros = [&] { return Tensor::zeros(in.x.rows.shape(), in.x.rows.dtype()); };
  Tensor between = zeros(), grad_x = zeros();
  if (!feed_forward_residual_) {
    const auto both = [&](const TensorView& rows, const TensorView& grad, const MutableTensorView& grad_rows) {
      if (parallel_norm_) {
        Tensor grad_normed = zeros();
        feed(saved.parallel_normed, grad, grad_normed);
        parallel_norm_->backward(in.x.rows, grad_normed, grad_x, threads);
      } else {
        feed(rows, grad, grad_rows);
      }
      attend(rows, grad, grad_rows);
    };
    self_residual_.backward(in.x.rows, both, at(DropoutSite::self_residual), saved.self_residual, grad_out, grad_x,
                            threads);
    return grad_x;
  }
  feed_forward_residual_->backward(in.memory ? saved.after_memory : saved.after_self, feed,
                                   at(DropoutSite::feed_forward_residual), saved.feed_forward_residual, grad_out,
                                   between, threads);
  if (in.memory) {
    Tensor after_self = zeros();
    memory_residual_->backward(saved.after_self, attend_memory, at(DropoutSite::memory_residual), saved.memory_residual,
                               between, after_self, threads);
    between = std::move(after_self);
  }
  self_residual_.backward(in.x.rows, attend, at(DropoutSite::self_residual), saved.self_residual, between, grad_x,
                          threads);
  return grad_x;
}

TransformerLayerCache TransformerLayer::make_cache(std::int64_t batch, std::optional<Dtype> dtype) const {
  check(false);
  return {.self = self_attention_.make_cache(batch, dtype)};
}

TransformerLayerCache TransformerLayer::make_cache(const Sequences& memory, int threads) const {
  check(true);
  const std::int64_t batch = memory.ragged() ? memory.offsets.size(0) - 1 : batch_and_length(memory)[0];
  Cache cache{self_attention_.make_cache(batch), memory_attention_->make_cache(batch)};
  memory_attention_->append(memory, *cache.memory, threads);
  return cache;
}

Tensor TransformerLayer::forward(const Sequences& x, Cache& cache, int threads, LastWeights* last,
                                 CacheQueries queries) const {
  check(cache.memory.has_value());
  Tensor out = Tensor::copy(x.rows);
  const auto attend_cached = [&](const TensorView& rows) {
    const Sequences own = with_rows(x, rows);
    self_attention_.append(own, cache.self, threads);
    return self_attention_.forward(own, cache.self, {.mask = Mask::causal(Align::bottom_right), .threads = threads},
                                   last, queries);
  };
  const auto attend_memory = [&](const TensorView& rows) {
    return memory_attention_->forward(with_rows(x, rows), *cache.memory, {.threads = threads});
  };
  const auto feed = [&](const NormedRows& input, const RowSink& put) {
    feed_forward_.forward(parallel_norm_ ? NormedRows{out, &*parallel_norm_} : input, put, threads);
  };
  const Residual::Sublayer attend = as_a_whole(attend_cached, threads);
  if (!feed_forward_residual_) {
    self_residual_.forward(out, side_by_side(attend, feed, threads), threads);
    return out;
  }
  self_residual_.forward(out, attend, threads);
  if (cache.memory) memory_residual_->forward(out, as_a_whole(attend_memory, threads), threads);
  feed_forward_residual_->forward(out, feed, threads);
  return out;
}

void TransformerLayer::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(self_attention_, scope + "self_attn.");
  walk(memory_attention_, scope + "multihead_attn.");
  walk(feed_forward_, scope);
  walk(self_residual_, scope + "norm1.");
  walk(memory_residual_, scope + "norm2.");
  walk(parallel_norm_, scope + "norm2.");
  walk(feed_forward_residual_, scope + (memory_residual_ ? "norm3." : "norm2."));
}

}  // namespace qkv
