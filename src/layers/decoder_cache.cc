// Decoders token by token: new tokens attend to the cached keys and values of both attentions.
#include "layers/head_operands.h"
#include "qkv/decoder_layer.h"
#include "qkv/transformer.h"

namespace qkv {

DecoderLayerCache DecoderLayer::make_cache(const Sequences& memory, int threads) const {
  const std::int64_t batch = memory.ragged() ? memory.offsets.size(0) - 1 : batch_and_length(memory)[0];
  DecoderLayerCache cache{self_attention_.make_cache(batch), memory_attention_.make_cache(batch)};
  memory_attention_.append(memory, cache.memory, threads);
  return cache;
}

Tensor DecoderLayer::forward(const TensorView& x, DecoderLayerCache& cache, int threads) const {
  const auto attend_self = [&](const TensorView& input) {
    self_attention_.append(input, cache.self, threads);
    return self_attention_.forward(input, cache.self, {.mask = Mask::causal(Align::bottom_right), .threads = threads});
  };
  const auto attend_memory = [&](const TensorView& input) {
    return memory_attention_.forward(input, cache.memory, {.threads = threads});
  };
  const auto feed = [&](const TensorView& input) { return feed_forward_.forward(input, threads); };
  const Tensor after_self = self_residual_.forward(x, attend_self, threads);
  const Tensor after_memory = memory_residual_.forward(after_self, attend_memory, threads);
  return feed_forward_residual_.forward(after_memory, feed, threads);
}

DecoderCache Decoder::make_cache(const Sequences& memory, int threads) const {
  DecoderCache cache;
  for (const DecoderLayer& layer : layers_) cache.layers.push_back(layer.make_cache(memory, threads));
  return cache;
}

Tensor Decoder::forward(const TensorView& x, DecoderCache& cache, int threads) const {
  Tensor rows;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    rows = layers_[i].forward(i == 0 ? x : rows.view(), cache.layers[i], threads);
  }
  return norm_ ? norm_->forward(rows, {}, threads) : std::move(rows);
}

void DecoderCache::reorder(std::span<const std::int64_t> parents) {
  for (DecoderLayerCache& layer : layers) {
    layer.self.reorder(parents);
    layer.memory.reorder(parents);
  }
}

}  // namespace qkv
