// TextEncoder: embeddings and encoder layers.
#include "qkv/models/text_encoder.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/refuse.h"
#include "layers/basic/affine.h"
#include "layers/basic/rows.h"
#include "layers/stack/layer_parts.h"
#include "models/encoders/text_encoder_folder.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

StackConfig stack_config(const TextEncoderConfig& config) {
  return {.layer = config.each.empty() ? config.layer() : config.each.front(),
          .layers = config.shares_layer ? 1 : config.layers,
          .each = config.each,
          .final_norm = !config.each.empty()};
}

// Passes on what the one layer of a stack says as if it were of layer `number`.
class NumberedLayer : public Observer {
 public:
  NumberedLayer(Observer* to, std::int64_t number) : to_(to), scope_(fmt::format("layers.{}.", number)) {}
  bool wants(std::string_view name) const override { return to_->wants(renamed(name)); }
  void receive(std::string_view name, const TensorView& value) override { to_->receive(renamed(name), value); }

 private:
  std::string renamed(std::string_view name) const {
    constexpr std::string_view kFirst = "layers.0.";
    return scope_ + std::string(name.starts_with(kFirst) ? name.substr(kFirst.size()) : name);
  }

  Observer* to_;
  std::string scope_;
};

// None without rows.
std::optional<Embedding> table_of(std::int64_t rows, std::int64_t dim, Weights& weights, const std::string& scope) {
  if (rows == 0) return std::nullopt;
  return Embedding({.count = rows, .dim = dim}, weights, scope);
}

// The row of each token in the table of positions.
std::vector<std::int32_t> positions_of(const TokenBatch& tokens, const TextEncoderConfig& config) {
  const std::size_t count = tokens.ids.size();
  const TensorView offsets = tokens.offsets;
  if (offsets.dtype() != Dtype::i32 || offsets.rank() != 1 || offsets.size(0) < 1 ||
      offsets.at<std::int32_t>({0}) != 0 ||
      offsets.at<std::int32_t>({offsets.size(0) - 1}) != static_cast<std::int64_t>(count) ||
      tokens.types.size() != count) {
    refuse("bert", "{} ids need as many types (got {}) and i32 offsets [batch + 1] from 0 to their number", count,
           tokens.types.size());
  }
  std::vector<std::int32_t> positions;
  positions.reserve(count);
  for (std::int64_t b = 0; b < tokens.batch(); ++b) {
    const std::int32_t length = offsets.at<std::int32_t>({b + 1}) - offsets.at<std::int32_t>({b});
    if (length < 0 || length > config.positions) {
      refuse("bert", "sequence {} has {} tokens; the model has positions for 0 to {}", b, length, config.positions);
    }
    for (std::int32_t i = 0; i < length; ++i) positions.push_back(i);
  }
  if (config.padding < 0) return positions;
  std::int32_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (positions[i] == 0) next = config.padding + 1;
    positions[i] = tokens.ids[i] == config.padding ? config.padding : next++;
  }
  return positions;
}

// Sites with their own dropout.
enum class EncoderSite : std::uint32_t { embeddings, layers };

Dropout of(const Dropout& dropout, EncoderSite site) { return dropout_at(dropout, static_cast<std::uint32_t>(site)); }

Dropout of_pass(const Dropout& dropout, std::size_t pass) {
  return dropout_at(of(dropout, EncoderSite::layers), static_cast<std::uint32_t>(pass));
}

}  // namespace

TextEncoderConfig TextEncoder::read_config(const std::string& folder) { return TextEncoderFolder::read_config(folder); }

TextEncoderConfig TextEncoder::check(const std::string& folder) { return TextEncoderFolder(folder).config(); }

TextEncoder TextEncoder::load(const std::string& folder, WeightStorage storage) {
  TextEncoderFolder files(folder);
  Weights weights = files.weights(storage);
  return TextEncoder(files.config(), weights);
}

TextEncoder::TextEncoder(const TextEncoderConfig& config, Weights& weights)
    : config_(config),
      word_({.count = config.vocab, .dim = config.embedding_columns()}, weights, "embeddings.word."),
      position_(table_of(config.position_rows(), config.embedding_columns(), weights, "embeddings.position.")),
      type_(table_of(config.types, config.embedding_columns(), weights, "embeddings.type.")),
      norm_({.dim = config.embedding_columns(),
             .epsilon = config.epsilon,
             .bias = config.each.empty() || config.each.front().bias},
            weights, "embeddings.norm."),
      projection_(part_if<Linear>(config.embedding_dim != 0,
                                  LinearConfig{.in = config.embedding_dim, .out = config.model_dim}, weights,
                                  "embeddings.projection.")),
      relative_(table_of(config.relative_buckets, config.heads, weights, "relative_bias.")),
      encoder_(stack_config(config), weights) {}

Tensor TextEncoder::forward(const TokenBatch& tokens, const TextEncoderOptions& options, Observer* observer) const {
  const StopScope stop(options.stop);
  const std::vector<std::int32_t> positions = positions_of(tokens, config_);
  const auto receive = [&](std::string_view name, const Tensor& value) {
    if (observer != nullptr) observer->receive(name, value);
  };
  Tensor x = word_.forward(tokens.ids);
  if (type_) type_->add(tokens.types, x);
  receive("embedding", x);
  if (position_) {
    position_->add(positions, x);
    receive("positions", x);
  }
  norm_.forward(x, {}, x, options.threads);
  receive("embedding_norm", x);
  if (projection_) x = projection_->forward(x, options.threads);
  receive("embeddings", x);
  const MultiHeadAttentionOptions own = attention(options.threads);
  if (!config_.shares_layer) {
    encoder_.run({{x, tokens.offsets}, own}, x, observer, {.self = options.masks});
    return x;
  }
  const auto masks = static_cast<std::int64_t>(options.masks.size());
  refuse_unless(masks == 0 || masks == config_.layers, "bert", "{} layers need as many masks, got {}", config_.layers,
                masks);
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    NumberedLayer numbered(observer, i);
    const auto mask = masks == 0 ? options.masks : options.masks.subspan(static_cast<std::size_t>(i), 1);
    encoder_.run({{x, tokens.offsets}, own}, x, observer == nullptr ? nullptr : &numbered, {.self = mask});
  }
  return x;
}

Tensor TextEncoder::forward(const TokenBatch& tokens, const Dropout& dropout, TextEncoderSaved& saved) const {
  saved.positions = positions_of(tokens, config_);
  saved.summed = word_.forward(tokens.ids);
  if (type_) type_->add(tokens.types, saved.summed);
  if (position_) position_->add(saved.positions, saved.summed);
  Tensor x = norm_.forward(saved.summed);
  drop(of(dropout, EncoderSite::embeddings), x, x, 0);
  if (projection_) {
    saved.normed = std::move(x);
    x = projection_->forward(saved.normed);
  }
  saved.passes.clear();
  saved.passes.resize(config_.shares_layer ? static_cast<std::size_t>(config_.layers) : 1);
  for (std::size_t i = 0; i < saved.passes.size(); ++i) {
    auto& [rows, layers] = saved.passes[i];
    rows = std::move(x);
    x = encoder_.forward({rows, tokens.offsets}, attention(0), of_pass(dropout, i), layers);
  }
  return x;
}

void TextEncoder::backward(const TokenBatch& tokens, const Dropout& dropout, const TextEncoderSaved& saved,
                           const TensorView& grad_out, Observer* observer) {
  MultiHeadAttentionOptions options = attention(0);
  if (relative_) options.table_gradient = gradient_view(relative_->weight());
  Tensor grad = Tensor::copy(grad_out);
  for (std::size_t i = saved.passes.size(); i-- > 0;) {
    const auto& [rows, layers] = saved.passes[i];
    NumberedLayer numbered(observer, static_cast<std::int64_t>(i));
    Observer* const own = observer != nullptr && config_.shares_layer ? &numbered : observer;
    grad = encoder_.backward({rows, tokens.offsets}, options, of_pass(dropout, i), layers, grad, own);
  }
  if (projection_) {
    Tensor before = Tensor::zeros(saved.normed.shape(), grad.dtype());
    projection_->backward(saved.normed, grad, before);
    grad = std::move(before);
  }
  drop(of(dropout, EncoderSite::embeddings), grad, grad, 0);
  Tensor grad_summed = Tensor::zeros(grad.shape(), grad.dtype());
  norm_.backward(saved.summed, grad, grad_summed);
  if (position_) position_->backward(saved.positions, grad_summed);
  if (type_) type_->backward(tokens.types, grad_summed);
  word_.backward(tokens.ids, grad_summed);
}

MultiHeadAttentionOptions TextEncoder::attention(int threads) const {
  const std::optional<RelativeTable> relative = relative_bias();
  return {.bias = relative ? Bias::table(*relative) : Bias(), .threads = threads};
}

std::optional<RelativeTable> TextEncoder::relative_bias() const {
  if (!relative_) return std::nullopt;
  return RelativeTable::t5(relative_->weight().value);
}

void TextEncoder::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(word_, scope + "embeddings.word.");
  walk(position_, scope + "embeddings.position.");
  walk(type_, scope + "embeddings.type.");
  walk(norm_, scope + "embeddings.norm.");
  walk(projection_, scope + "embeddings.projection.");
  walk(relative_, scope + "relative_bias.");
  walk(encoder_, scope);
}

}  // namespace qkv
