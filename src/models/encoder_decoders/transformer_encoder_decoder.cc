// TransformerEncoderDecoder: encoder, decoder and projection to the vocabulary, forward and backward.
#include "qkv/models/transformer_encoder_decoder.h"

#include <algorithm>
#include <cmath>

#include "layers/basic/affine.h"
#include "layers/basic/rows.h"
#include "layers/basic/scoped_observer.h"
#include "layers/stack/layer_parts.h"
#include "models/config_text.h"
#include "models/encoder_decoders/encoder_decoder_kind.h"
#include "models/encoder_decoders/target_tokens.h"
#include "models/encoder_decoders/transformer_encoder_decoder_folder.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/layers/positions.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

constexpr const char* kEncoderDecoder = "transformer_encoder_decoder";

// Sites with their own dropout.
enum class Site : std::uint32_t { source, target, encoder, decoder };

Dropout dropout_at(const Dropout& dropout, Site site) {
  return qkv::dropout_at(dropout, static_cast<std::uint32_t>(site));
}

StackConfig stack(const TransformerEncoderDecoderConfig& config, std::int64_t layers, std::int64_t heads,
                  std::int64_t ff_dim) {
  const bool rotary = config.position_kind == TransformerPositions::rotary;
  return {.layer = {.model_dim = config.model_dim,
                    .heads = heads,
                    .ff_dim = ff_dim,
                    .activation = config.activation,
                    .norm_order = config.norm_order,
                    .normalization = config.normalization,
                    .rotary = rotary ? std::optional(RotaryConfig()) : std::nullopt},
          .layers = layers,
          .final_norm = config.norm_order == NormOrder::pre};
}

EmbeddingConfig table_config(const TransformerEncoderDecoderConfig& config) {
  return {.count = config.output_vocab(), .dim = config.model_dim, .padding = config.padding, .projects = true};
}

// Rows of BART's tables; the first two are reserved.
std::vector<std::int32_t> table_rows(std::span<const std::int32_t> positions) {
  std::vector<std::int32_t> rows(positions.begin(), positions.end());
  for (std::int32_t& row : rows) row += kReservedPositions;
  return rows;
}

}  // namespace

TransformerEncoderDecoderConfig TransformerEncoderDecoder::read_config(const std::string& folder) {
  return read_folder_config(folder);
}

TransformerEncoderDecoderConfig TransformerEncoderDecoder::check(const std::string& folder) {
  return TransformerEncoderDecoderFolder(folder).config();
}

std::string TransformerEncoderDecoder::class_of(const TransformerEncoderDecoderConfig& config) {
  return transformers_class_of(config);
}
std::string TransformerEncoderDecoder::transformers_class() const { return class_of(config_); }
std::string TransformerEncoderDecoder::config_text() const { return qkv::config_text(config_); }

EncoderDecoderTokens TransformerEncoderDecoder::tokens() const { return config_.tokens(); }

std::vector<EncoderDecoderAttention> TransformerEncoderDecoder::attentions() const {
  using Place = EncoderDecoderAttention::Place;
  const auto of = [&](Place place, const char* before, const char* after) {
    const bool encoder = place == Place::encoder;
    return EncoderDecoderAttention{.place = place,
                                   .before = before,
                                   .after = after,
                                   .layers = encoder ? config_.encoder_layers : config_.decoder_layers,
                                   .heads = encoder ? config_.encoder_heads : config_.decoder_heads,
                                   .model_dim = config_.model_dim};
  };
  return {of(Place::encoder, "encoder.layers.", "."), of(Place::decoder, "decoder.layers.", ".self."),
          of(Place::memory, "decoder.layers.", ".memory.")};
}

TransformerEncoderDecoder TransformerEncoderDecoder::load(const std::string& folder, WeightStorage storage) {
  TransformerEncoderDecoderFolder files(folder);
  Weights weights = files.weights(storage);
  return TransformerEncoderDecoder(files.config(), weights);
}

void TransformerEncoderDecoder::save(const std::string& folder, Dtype dtype) const {
  write_folder(folder, *this, dtype);
}

TransformerEncoderDecoder::Side::Side(const TransformerEncoderDecoderConfig& config, const EmbeddingConfig& own_table,
                                      Weights& weights, const std::string& scope) {
  if (config.target_vocab > 0) table.emplace(own_table, weights, scope + kTable);
  if (has_position_tables(config)) {
    positions.emplace(EmbeddingConfig{.count = config.positions + kReservedPositions, .dim = config.model_dim}, weights,
                      scope + kPositions);
  }
  if (meaning_of(config.kind).embedding_norm) {
    norm.emplace(norm_config({.model_dim = config.model_dim, .normalization = config.normalization}), weights,
                 scope + kEmbeddingNorm);
  }
}

TransformerEncoderDecoder::TransformerEncoderDecoder(const TransformerEncoderDecoderConfig& config, Weights& weights)
    : config_(config),
      logits_bias_{.value = weights.take(kLogitsBias, {config.output_vocab()})},
      source_(config, {.count = config.vocab, .dim = config.model_dim}, weights, "encoder."),
      target_(config, table_config(config), weights, "decoder."),
      encoder_(stack(config, config.encoder_layers, config.encoder_heads, config.encoder_ff_dim), weights, "encoder."),
      decoder_(stack(config, config.decoder_layers, config.decoder_heads, config.decoder_ff_dim), weights, "decoder.") {
  if (config.target_vocab == 0) shared_.emplace(table_config(config), weights, kShared);
  if (has_sinusoids(config)) {
    sinusoids_ = sinusoids(config.positions, config.model_dim, SinusoidOrder::sines_first, weights.dtype());
  }
}

const Embedding& TransformerEncoderDecoder::table_of(const Side& side) const {
  return side.table ? *side.table : *shared_;
}
Embedding& TransformerEncoderDecoder::table_of(Side& side) { return side.table ? *side.table : *shared_; }

TransformerEncoderDecoder TransformerEncoderDecoder::initial(const TransformerEncoderDecoderConfig& config,
                                                             std::uint64_t seed, WeightStorage storage) {
  Weights weights = initial_weights(seed, Dtype::f32, storage);
  TransformerEncoderDecoder model(config, weights);
  model.table_of(model.target_).update([&](const std::string&, Parameter& table) {
    std::fill_n(table.value.data<float>() + config.padding * config.model_dim, config.model_dim, 0.0f);
  });
  return model;
}

Tensor TransformerEncoderDecoder::embed(const Side& side, std::span<const std::int32_t> ids,
                                        std::span<const std::int32_t> positions, Tensor* summed,
                                        Observer* observer) const {
  const auto receive = [&](std::string_view name, const Tensor& value) {
    if (observer != nullptr) observer->receive(name, value);
  };
  Tensor x = table_of(side).forward(ids);
  if (config_.scale_embedding) scale_rows(x, std::sqrt(static_cast<double>(config_.model_dim)));
  receive("embedding", x);
  if (side.positions) side.positions->add(table_rows(positions), x);
  if (config_.position_kind == TransformerPositions::of_kind && !side.positions)
    add_positions(sinusoids_, positions, x);
  receive("positions", x);
  if (!side.norm) return x;
  Tensor normed = side.norm->forward(x);
  receive("embedding_norm", normed);
  if (summed != nullptr) *summed = std::move(x);
  return normed;
}

void TransformerEncoderDecoder::embed_backward(Side& side, std::span<const std::int32_t> ids,
                                               std::span<const std::int32_t> positions, const Tensor& summed,
                                               Tensor& grad) {
  if (side.norm) {
    Tensor grad_summed = Tensor::zeros(grad.shape(), grad.dtype());
    side.norm->backward(summed, grad, grad_summed);
    grad = std::move(grad_summed);
  }
  if (side.positions) side.positions->backward(table_rows(positions), grad);
  if (config_.scale_embedding) scale_rows(grad, std::sqrt(static_cast<double>(config_.model_dim)));
  table_of(side).backward(ids, grad);
}

Tensor TransformerEncoderDecoder::encode(std::span<const std::int32_t> ids, const Tensor& offsets,
                                         const EncoderDecoderOptions& options, Observer* observer) const {
  const StopScope stop(options.stop);
  const auto positions = check_positions(kEncoderDecoder, ids.size(), offsets, config_.positions);
  Tensor x =
      observed(observer, "encoder.", [&](Observer* scoped) { return embed(source_, ids, positions, nullptr, scoped); });
  if (observer != nullptr) observer->receive("encoder.embeddings", x);
  observed(observer, "encoder.", [&](Observer* scoped) {
    encoder_.run({{x, offsets}, {.threads = options.threads}}, x, scoped, {.self = options.masks.encoder});
  });
  return x;
}

Tensor TransformerEncoderDecoder::decode(const PairBatch& batch, const EncoderDecoderOptions& options,
                                         Observer* observer) const {
  const StopScope stop(options.stop);
  const Tensor memory = encode(batch.source, batch.source_offsets, options, observer);
  const auto positions = check_positions(kEncoderDecoder, batch.target.size(), batch.target_offsets, config_.positions);
  const auto read = begun(batch, positions, config_.start);
  Tensor x = observed(observer, "decoder.",
                      [&](Observer* scoped) { return embed(target_, read, positions, nullptr, scoped); });
  if (observer != nullptr) observer->receive("decoder.embeddings", x);
  observed(observer, "decoder.", [&](Observer* scoped) {
    decoder_.run({{x, batch.target_offsets}, {memory, batch.source_offsets}, {.threads = options.threads}}, x, scoped,
                 {.self = options.masks.decoder, .memory = options.masks.memory});
  });
  return x;
}

Tensor TransformerEncoderDecoder::logits(const PairBatch& batch, const EncoderDecoderOptions& options,
                                         Observer* observer) const {
  const StopScope stop(options.stop);
  const Tensor hidden = decode(batch, options, observer);
  Tensor logits = Tensor::uninitialized({hidden.size(0), config_.output_vocab()}, hidden.dtype());
  matmul(hidden, table_of(target_).projection(), logits, {.bias = logits_bias_.value, .threads = options.threads});
  return logits;
}

LossSum TransformerEncoderDecoder::loss(const PairBatch& batch) const {
  Tensor unpacked;
  return cross_entropy(classes(table_of(target_), logits_bias_.value, unpacked), decode(batch, {}, nullptr),
                       batch.target, {.excluded = excluded(config_)});
}

LossSum TransformerEncoderDecoder::backward(const PairBatch& batch, const EncoderDecoderTrainingOptions& options) {
  const Dropout dropout{.p = options.dropout, .seed = options.seed};
  const Dropout source_dropout = dropout_at(dropout, Site::source);
  const Dropout target_dropout = dropout_at(dropout, Site::target);
  const Dropout encoder_dropout = dropout_at(dropout, Site::encoder);
  const Dropout decoder_dropout = dropout_at(dropout, Site::decoder);
  const auto source_positions =
      check_positions(kEncoderDecoder, batch.source.size(), batch.source_offsets, config_.positions);
  const auto target_positions =
      check_positions(kEncoderDecoder, batch.target.size(), batch.target_offsets, config_.positions);
  const std::vector<std::int32_t> target = begun(batch, target_positions, config_.start);

  Tensor source_summed, target_summed;
  Tensor source_rows = embed(source_, batch.source, source_positions, &source_summed);
  Tensor target_rows = embed(target_, target, target_positions, &target_summed);
  drop(source_dropout, source_rows, source_rows, 0);
  drop(target_dropout, target_rows, target_rows, 0);
  const Sequences source{source_rows, batch.source_offsets}, begun_target{target_rows, batch.target_offsets};
  EncoderSaved encoder_saved;
  const Tensor memory_rows = encoder_.forward(source, {}, encoder_dropout, encoder_saved);
  const Sequences memory{memory_rows, batch.source_offsets};
  DecoderSaved decoder_saved;
  const Tensor hidden = decoder_.forward(begun_target, memory, {}, decoder_dropout, decoder_saved);

  Embedding& table = table_of(target_);
  Tensor unpacked;
  Tensor grad_hidden = Tensor::zeros(hidden.shape(), hidden.dtype());
  const LossSum sum = cross_entropy(
      classes(table, logits_bias_.value, unpacked), hidden, counted(batch, options),
      {.smoothing = options.label_smoothing, .excluded = options.only ? std::nullopt : excluded(config_)},
      {.hidden = grad_hidden, .weight = gradient_view(table.weight()), .bias = gradient_view(logits_bias_)});
  Tensor grad_memory = Tensor::zeros(memory_rows.shape(), memory_rows.dtype());
  Tensor grad_target = observed(options.observer, "decoder.", [&](Observer* scoped) {
    return decoder_.backward(begun_target, memory, {}, decoder_dropout, decoder_saved, grad_hidden, grad_memory,
                             scoped);
  });
  Tensor grad_source = observed(options.observer, "encoder.", [&](Observer* scoped) {
    return encoder_.backward(source, {}, encoder_dropout, encoder_saved, grad_memory, scoped);
  });
  drop(target_dropout, grad_target, grad_target, 0);
  drop(source_dropout, grad_source, grad_source, 0);
  embed_backward(target_, target, target_positions, target_summed, grad_target);
  embed_backward(source_, batch.source, source_positions, source_summed, grad_source);
  return sum;
}

// The decoder as generate() uses it: one more token for every row.
class TransformerEncoderDecoder::Targets final : public NextTokens {
 public:
  Targets(const TransformerEncoderDecoder& model, const Sequences& memory, const EncoderDecoderOptions& options)
      : model_(model), options_(options), cache_(model.decoder_.make_cache(memory, options.threads)) {}

  std::int64_t vocab() const override { return model_.config_.output_vocab(); }

  MutableTensorView step(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens) override {
    const StopScope stop(options_.stop);
    cache_.reorder(parents);
    const auto rows = static_cast<std::int64_t>(tokens.size());
    const std::vector<std::int32_t> positions(tokens.size(), position_++);
    const Tensor x = model_.embed(model_.target_, tokens, positions);
    const Tensor hidden =
        model_.decoder_.forward(x.view().reshape({rows, 1, model_.config_.model_dim}), cache_, options_.threads);
    logits_ = Tensor::uninitialized({rows, vocab()}, hidden.dtype());
    matmul(hidden.view().reshape(x.shape()), model_.table_of(model_.target_).projection(), logits_,
           {.bias = model_.logits_bias_.value, .threads = options_.threads});
    return logits_;
  }

 private:
  const TransformerEncoderDecoder& model_;
  const EncoderDecoderOptions options_;
  DecoderCache cache_;
  std::int32_t position_ = 0;
  Tensor logits_;
};

std::unique_ptr<NextTokens> TransformerEncoderDecoder::decoder(std::span<const std::int32_t> ids, const Tensor& offsets,
                                                               const EncoderDecoderOptions& options) const {
  const StopScope stop(options.stop);
  refuse_masks(kEncoderDecoder, options);
  const Tensor memory = encode(ids, offsets, options);
  return std::make_unique<Targets>(*this, Sequences(memory, offsets), options);
}

void TransformerEncoderDecoder::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  const auto walk_side = [&](Side& side, const std::string& own) {
    walk(side.table, own + kTable);
    walk(side.positions, own + kPositions);
    walk(side.norm, own + kEmbeddingNorm);
  };
  walk(shared_, scope + kShared);
  walk(logits_bias_, scope + kLogitsBias);
  walk_side(source_, scope + "encoder.");
  walk(encoder_, scope + "encoder.");
  walk_side(target_, scope + "decoder.");
  walk(decoder_, scope + "decoder.");
}

}  // namespace qkv
