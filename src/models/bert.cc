// Bert: embeddings and encoder layers.
#include "qkv/models/bert.h"

#include <fmt/format.h>

#include <stdexcept>

#include "layers/basic/scoped_observer.h"

namespace qkv {
namespace {

std::string layer_scope(std::int64_t layer) { return fmt::format("layers.{}.", layer); }

// 0, 1, 2 ... within each sequence.
std::vector<std::int32_t> positions_of(const TokenBatch& tokens, std::int64_t most) {
  const std::size_t count = tokens.ids.size();
  const TensorView offsets = tokens.offsets;
  if (offsets.dtype() != Dtype::i32 || offsets.rank() != 1 || offsets.size(0) < 1 ||
      offsets.at<std::int32_t>({offsets.size(0) - 1}) != static_cast<std::int64_t>(count) ||
      tokens.types.size() != count) {
    throw std::invalid_argument(
        fmt::format("bert: {} ids need as many types (got {}) and i32 offsets [batch + 1] that end with their number",
                    count, tokens.types.size()));
  }
  std::vector<std::int32_t> positions;
  positions.reserve(count);
  for (std::int64_t b = 0; b < tokens.batch(); ++b) {
    const std::int32_t length = offsets.at<std::int32_t>({b + 1}) - offsets.at<std::int32_t>({b});
    if (length < 0 || length > most) {
      throw std::invalid_argument(
          fmt::format("bert: sequence {} has {} tokens; the model has positions for 0 to {}", b, length, most));
    }
    for (std::int32_t i = 0; i < length; ++i) positions.push_back(i);
  }
  return positions;
}

}  // namespace

Bert::Bert(const BertConfig& config, Weights& weights)
    : config_(config),
      word_({.count = config.vocab, .dim = config.model_dim}, weights, "embeddings.word."),
      position_({.count = config.positions, .dim = config.model_dim}, weights, "embeddings.position."),
      type_({.count = config.types, .dim = config.model_dim}, weights, "embeddings.type."),
      norm_({.dim = config.model_dim, .epsilon = config.epsilon}, weights, "embeddings.norm.") {
  for (std::int64_t i = 0; i < config.layers; ++i) {
    layers_.emplace_back(EncoderLayerConfig{.model_dim = config.model_dim,
                                            .heads = config.heads,
                                            .ff_dim = config.ff_dim,
                                            .activation = config.activation,
                                            .epsilon = config.epsilon},
                         weights, layer_scope(i));
  }
}

Tensor Bert::forward(const TokenBatch& tokens, const BertOptions& options, Observer* observer) const {
  const std::vector<std::int32_t> positions = positions_of(tokens, config_.positions);
  Tensor x = word_.forward(tokens.ids);
  type_.add(tokens.types, x);
  position_.add(positions, x);
  x = norm_.forward(x, {}, options.threads);
  if (observer != nullptr) observer->receive("embeddings", x);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const MultiHeadAttentionOptions attention{.threads = options.threads, .stop = options.stop};
    x = observed(observer, layer_scope(static_cast<std::int64_t>(i)),
                 [&](Observer* scoped) { return layers_[i].forward({x, tokens.offsets}, attention, scoped); });
  }
  return x;
}

void Bert::visit(const ParameterVisitor& visitor) const {
  word_.visit(visitor, "embeddings.word.");
  position_.visit(visitor, "embeddings.position.");
  type_.visit(visitor, "embeddings.type.");
  norm_.visit(visitor, "embeddings.norm.");
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].visit(visitor, layer_scope(static_cast<std::int64_t>(i)));
  }
}

void Bert::update(const ParameterUpdater& updater) {
  word_.update(updater, "embeddings.word.");
  position_.update(updater, "embeddings.position.");
  type_.update(updater, "embeddings.type.");
  norm_.update(updater, "embeddings.norm.");
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].update(updater, layer_scope(static_cast<std::int64_t>(i)));
  }
}

}  // namespace qkv
