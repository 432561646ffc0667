#include "qkv/marian.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "layers/affine.h"
#include "layers/layer_dropout.h"
#include "layers/scoped_observer.h"
#include "models/marian_names.h"
#include "qkv/cross_entropy.h"
#include "qkv/initial_weights.h"
#include "qkv/positions.h"

namespace qkv {
namespace {

// What has dropout of its own.
enum class Place : std::uint32_t { source, target, encoder, decoder };

Dropout dropout_at(const Dropout& dropout, Place place) {
  return qkv::dropout_at(dropout, static_cast<std::uint32_t>(place));
}

StackConfig stack(const MarianConfig& config, std::int64_t layers, std::int64_t heads, std::int64_t ff_dim) {
  return {.layer = {.model_dim = config.model_dim, .heads = heads, .ff_dim = ff_dim, .activation = config.activation},
          .layers = layers,
          .final_norm = false};
}

// 0, 1, 2 ... for each id within its sequence.
std::vector<std::int32_t> check_positions(std::size_t ids, const Tensor& offsets, std::int64_t most) {
  std::vector<std::int32_t> positions = positions_of(offsets, most);
  if (offsets.data<std::int32_t>()[0] != 0 || positions.size() != ids) {
    throw std::invalid_argument(fmt::format("marian: {} ids need offsets from 0 to their number", ids));
  }
  return positions;
}

// What the decoder reads: each target behind the start token, without its own last one.
std::vector<std::int32_t> begun(const PairBatch& batch, const MarianConfig& config) {
  const auto positions = check_positions(batch.target.size(), batch.target_offsets, config.positions);
  std::vector<std::int32_t> ids(positions.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = positions[i] == 0 ? config.start : batch.target[i - 1];
  return ids;
}

// rows *= factor.
void scale_rows(Tensor& rows, double factor) {
  const auto run = [&]<class T>(T) {
    T* data = rows.data<T>();
    for (std::int64_t i = 0; i < rows.element_count(); ++i) data[i] *= static_cast<T>(factor);
  };
  rows.dtype() == Dtype::f64 ? run(double{}) : run(float{});
}

}  // namespace

Marian::Marian(const MarianConfig& config, Weights& weights)
    : config_(config),
      positions_(sinusoids(config.positions, config.model_dim, SinusoidOrder::sines_first, weights.dtype())),
      shared_({.count = config.vocab, .dim = config.model_dim, .padding = config.padding}, weights, "shared."),
      logits_bias_{.value = weights.take(kLogitsBias, {config.vocab})},
      encoder_(stack(config, config.encoder_layers, config.encoder_heads, config.encoder_ff_dim), weights, "encoder."),
      decoder_(stack(config, config.decoder_layers, config.decoder_heads, config.decoder_ff_dim), weights, "decoder.") {
  pack(weights.storage());
}

void Marian::pack(WeightStorage storage) {
  projection_ = PackedMatrix(shared_.weight().value.view().transpose(0, 1), 0, storage);
}

Marian Marian::initial(const MarianConfig& config, std::uint64_t seed) {
  Weights weights = initial_weights(seed);
  Marian model(config, weights);
  Tensor& table = model.shared_.weight().value;
  std::fill_n(table.data<float>() + config.padding * config.model_dim, config.model_dim, 0.0f);
  model.pack(WeightStorage::full);
  return model;
}

Tensor Marian::embed(std::span<const std::int32_t> ids, const Tensor& offsets) const {
  return embed(ids, check_positions(ids.size(), offsets, config_.positions));
}

Tensor Marian::embed(std::span<const std::int32_t> ids, std::span<const std::int32_t> positions) const {
  Tensor x = shared_.forward(ids);
  if (config_.scale_embedding) scale_rows(x, std::sqrt(static_cast<double>(config_.model_dim)));
  add_positions(positions_, positions, x);
  return x;
}

void Marian::embed_backward(std::span<const std::int32_t> ids, Tensor& grad) {
  if (config_.scale_embedding) scale_rows(grad, std::sqrt(static_cast<double>(config_.model_dim)));
  shared_.backward(ids, grad);
}

Tensor Marian::encode(std::span<const std::int32_t> ids, const Tensor& offsets, const MarianOptions& options,
                      Observer* observer) const {
  const Tensor x = embed(ids, offsets);
  if (observer != nullptr) observer->receive("encoder.embeddings", x);
  return observed(observer, "encoder.", [&](Observer* scoped) {
    return encoder_.forward({x, offsets}, {.threads = options.threads, .stop = options.stop}, scoped);
  });
}

Tensor Marian::decode(const PairBatch& batch, const MarianOptions& options, Observer* observer) const {
  const Tensor memory = encode(batch.source, batch.source_offsets, options, observer);
  const Tensor x = embed(begun(batch, config_), batch.target_offsets);
  if (observer != nullptr) observer->receive("decoder.embeddings", x);
  return observed(observer, "decoder.", [&](Observer* scoped) {
    return decoder_.forward({x, batch.target_offsets}, {memory, batch.source_offsets},
                            {.threads = options.threads, .stop = options.stop}, scoped);
  });
}

Tensor Marian::logits(const PairBatch& batch, const MarianOptions& options, Observer* observer) const {
  const Tensor hidden = decode(batch, options, observer);
  Tensor logits = Tensor::uninitialized({hidden.size(0), config_.vocab}, hidden.dtype());
  matmul(hidden, projection_, logits, {.bias = logits_bias_.value, .threads = options.threads});
  return logits;
}

LossSum Marian::loss(const PairBatch& batch) const {
  const CrossEntropy sum = cross_entropy({.weight = shared_.weight().value, .bias = logits_bias_.value},
                                         decode(batch, {}, nullptr), batch.target, {.excluded = config_.padding});
  return {.sum = sum.nll, .tokens = sum.targets};
}

LossSum Marian::backward(const PairBatch& batch, const MarianTrainingOptions& options) {
  const Dropout dropout{.p = options.dropout, .seed = options.seed};
  const Dropout source_dropout = dropout_at(dropout, Place::source);
  const Dropout target_dropout = dropout_at(dropout, Place::target);
  const Dropout encoder_dropout = dropout_at(dropout, Place::encoder);
  const Dropout decoder_dropout = dropout_at(dropout, Place::decoder);
  const std::vector<std::int32_t> target = begun(batch, config_);

  Tensor source_rows = embed(batch.source, batch.source_offsets), target_rows = embed(target, batch.target_offsets);
  drop(source_dropout, source_rows, source_rows, 0);
  drop(target_dropout, target_rows, target_rows, 0);
  const Sequences source{source_rows, batch.source_offsets}, begun_target{target_rows, batch.target_offsets};
  EncoderSaved encoder_saved;
  const Tensor memory_rows = encoder_.forward(source, {}, encoder_dropout, encoder_saved);
  const Sequences memory{memory_rows, batch.source_offsets};
  DecoderSaved decoder_saved;
  const Tensor hidden = decoder_.forward(begun_target, memory, {}, decoder_dropout, decoder_saved);

  Tensor grad_hidden = Tensor::zeros(hidden.shape(), hidden.dtype());
  const CrossEntropy sum = cross_entropy(
      {.weight = shared_.weight().value, .bias = logits_bias_.value}, hidden, batch.target,
      {.smoothing = options.label_smoothing, .excluded = config_.padding},
      {.hidden = grad_hidden, .weight = gradient_place(shared_.weight()), .bias = gradient_place(logits_bias_)});
  Tensor grad_memory = Tensor::zeros(memory_rows.shape(), memory_rows.dtype());
  Tensor grad_target =
      decoder_.backward(begun_target, memory, {}, decoder_dropout, decoder_saved, grad_hidden, grad_memory);
  Tensor grad_source = encoder_.backward(source, {}, encoder_dropout, encoder_saved, grad_memory);
  drop(target_dropout, grad_target, grad_target, 0);
  drop(source_dropout, grad_source, grad_source, 0);
  embed_backward(target, grad_target);
  embed_backward(batch.source, grad_source);
  return {.sum = sum.loss, .tokens = sum.targets};
}

void Marian::visit(const ParameterVisitor& visitor) const {
  shared_.visit(visitor, "shared.");
  visitor(kLogitsBias, logits_bias_);
  encoder_.visit(visitor, "encoder.");
  decoder_.visit(visitor, "decoder.");
}

void Marian::update(const ParameterUpdater& updater) {
  shared_.update(updater, "shared.");
  updater(kLogitsBias, logits_bias_);
  encoder_.update(updater, "encoder.");
  decoder_.update(updater, "decoder.");
  pack(projection_.storage());
}

}  // namespace qkv
