// RecurrentEncoderDecoder: embeddings, encoder, decoder and projection to the vocabulary, forward and backward.
#include "lab/models/recurrent_encoder_decoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "core/refuse.h"
#include "lab/models/recurrent_decoder.h"
#include "lab/models/recurrent_folder.h"
#include "layers/basic/affine.h"
#include "layers/basic/rows.h"
#include "models/config_text.h"
#include "models/encoder_decoders/target_tokens.h"
#include "models/encoder_decoders/transformer_encoder_decoder_folder.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

// Sites with their own dropout.
enum RecurrentSite : std::uint32_t { kSource, kTarget, kEncoder, kDecoder };

RecurrentConfig encoder_config(const RecurrentEncoderDecoderConfig& config) {
  refuse_unless(config.directions >= 1 && config.model_dim % config.directions == 0, "seq2seq",
                "model_dim is {}; {} directions must divide it", config.model_dim, config.directions);
  return {.cell = config.cell,
          .in = config.model_dim,
          .hidden = config.model_dim / config.directions,
          .layers = config.layers,
          .directions = config.directions};
}

EmbeddingConfig projecting(const RecurrentEncoderDecoderConfig& config) {
  return {.count = config.output_vocab(), .dim = config.model_dim, .padding = config.padding, .projects = true};
}

// The directions of each layer side by side: [layers * directions, batch, size] -> [layers, batch, directions * size].
Tensor joined(const Tensor& states, int directions) {
  if (directions == 1 || states.element_count() == 0) return states;
  const std::int64_t size = states.size(2);
  Tensor all = Tensor::uninitialized({states.size(0) / directions, states.size(1), directions * size}, states.dtype());
  for (std::int64_t i = 0; i < states.size(0); ++i) {
    const std::int64_t column = i % directions * size;
    convert(states.view().select(0, i), all.view().select(0, i / directions).slice(1, column, column + size));
  }
  return all;
}

// The inverse.
Tensor apart(const Tensor& states, int directions) {
  if (directions == 1 || states.element_count() == 0) return states;
  const std::int64_t size = states.size(2) / directions;
  Tensor all = Tensor::uninitialized({states.size(0) * directions, states.size(1), size}, states.dtype());
  for (std::int64_t i = 0; i < all.size(0); ++i) {
    const std::int64_t column = i % directions * size;
    convert(states.view().select(0, i / directions).slice(1, column, column + size), all.view().select(0, i));
  }
  return all;
}

// A forward pass over pairs, and what backward needs of it.
struct Pass {
  Pass(const RecurrentEncoderDecoderConfig& config, const PairBatch& batch) {
    check_positions("seq2seq", batch.source.size(), batch.source_offsets, config.positions);
    target = begun(batch, check_positions("seq2seq", batch.target.size(), batch.target_offsets, config.positions),
                   config.start);
  }

  std::vector<std::int32_t> target;  // what the decoder reads
  Tensor source_rows, target_rows;
  RecurrentSaved encoder;
  RecurrentMemory memory;
  RecurrentDecoder::Saved decoder;
};

}  // namespace

struct RecurrentEncoderDecoder::Parts {
  Parts(const RecurrentEncoderDecoderConfig& config, Weights& weights)
      : source(config.target_vocab > 0 ? EmbeddingConfig{.count = config.vocab, .dim = config.model_dim}
                                       : projecting(config),
               weights, config.target_vocab > 0 ? std::string("encoder.") + kTable : kShared),
        logits_bias{.value = weights.take(kLogitsBias, {config.output_vocab()})},
        encoder(encoder_config(config), weights, "encoder.rnn."),
        decoder(config, weights),
        scale(std::sqrt(static_cast<double>(config.model_dim))) {
    if (config.target_vocab > 0) target.emplace(projecting(config), weights, std::string("decoder.") + kTable);
  }

  const Embedding& target_table() const { return target ? *target : source; }
  Embedding& target_table() { return target ? *target : source; }

  Tensor embed(const Embedding& table, std::span<const std::int32_t> ids) const {
    Tensor rows = table.forward(ids);
    scale_rows(rows, scale);
    return rows;
  }

  RecurrentMemory encode(const Tensor& rows, const Tensor& offsets, const Dropout& dropout, RecurrentSaved& saved,
                         int threads) const {
    RecurrentOutput run = encoder.forward({rows, offsets}, {}, dropout, saved, threads);
    const int directions = encoder.config().directions;
    return {.rows = std::move(run.out),
            .offsets = offsets,
            .states = {.hidden = joined(run.states.hidden, directions), .cell = joined(run.states.cell, directions)}};
  }

  // What is projected to the vocabulary, of each target token.
  Tensor run(const PairBatch& batch, const Dropout& dropout, Pass& pass, int threads = 0, Observer* observer = nullptr,
             const Mask& mask = {}) const {
    pass.source_rows = embed(source, batch.source);
    pass.target_rows = embed(target_table(), pass.target);
    drop(dropout_at(dropout, kSource), pass.source_rows, pass.source_rows, threads);
    drop(dropout_at(dropout, kTarget), pass.target_rows, pass.target_rows, threads);
    pass.memory = encode(pass.source_rows, batch.source_offsets, dropout_at(dropout, kEncoder), pass.encoder, threads);
    pass.memory.mask = mask;
    if (observer != nullptr) observer->receive("encoder.output", pass.memory.rows);
    Tensor hidden = decoder.forward({pass.target_rows, batch.target_offsets}, pass.memory,
                                    dropout_at(dropout, kDecoder), pass.decoder, threads, observer);
    if (observer != nullptr) observer->receive("decoder.output", hidden);
    return hidden;
  }

  Embedding source;  // of both sides, unless the target side has its own
  std::optional<Embedding> target;
  Parameter logits_bias;
  Recurrent encoder;
  RecurrentDecoder decoder;
  double scale;  // of embeddings
};

RecurrentEncoderDecoder::RecurrentEncoderDecoder(const RecurrentEncoderDecoderConfig& config, Weights& weights)
    : config_(config), parts_(std::make_unique<Parts>(config, weights)) {}
RecurrentEncoderDecoder::RecurrentEncoderDecoder(RecurrentEncoderDecoder&&) noexcept = default;
RecurrentEncoderDecoder& RecurrentEncoderDecoder::operator=(RecurrentEncoderDecoder&&) noexcept = default;
RecurrentEncoderDecoder::~RecurrentEncoderDecoder() = default;

RecurrentEncoderDecoder RecurrentEncoderDecoder::load(const std::string& folder, WeightStorage storage) {
  RecurrentFolder files(folder);
  Weights weights = files.weights(storage);
  return RecurrentEncoderDecoder(files.config(), weights);
}

RecurrentEncoderDecoderConfig RecurrentEncoderDecoder::check(const std::string& folder) {
  return RecurrentFolder(folder).config();
}

void RecurrentEncoderDecoder::save(const std::string& folder, Dtype dtype) const {
  write_recurrent_folder(folder, *this, dtype);
}

RecurrentEncoderDecoder RecurrentEncoderDecoder::initial(const RecurrentEncoderDecoderConfig& config,
                                                         std::uint64_t seed, WeightStorage storage) {
  Weights weights = initial_weights(seed, Dtype::f32, storage);
  RecurrentEncoderDecoder model(config, weights);
  draw_recurrent(model.parts_->encoder, seed);
  draw_recurrent(model.parts_->decoder.recurrent(), seed + 1);
  model.parts_->target_table().update([&](const std::string&, Parameter& table) {
    std::fill_n(table.value.data<float>() + config.padding * config.model_dim, config.model_dim, 0.0f);
  });
  return model;
}

EncoderDecoderTokens RecurrentEncoderDecoder::tokens() const { return config_.tokens(); }

std::vector<EncoderDecoderAttention> RecurrentEncoderDecoder::attentions() const {
  if (config_.kind == RecurrentAttentionKind::fixed) return {};
  const Score::Kind score = config_.kind == RecurrentAttentionKind::additive ? Score::Kind::additive
                            : config_.kind == RecurrentAttentionKind::dot    ? Score::Kind::dot
                                                                             : Score::Kind::bilinear;
  return {{.before = "decoder.attention.",
           .after = ".",
           .layers = 1,
           .heads = 1,
           .model_dim = config_.model_dim,
           .score = score}};
}

Tensor RecurrentEncoderDecoder::logits(const PairBatch& batch, const EncoderDecoderOptions& options,
                                       Observer* observer) const {
  const StopScope stop(options.stop);
  const auto& [encoder, decoder, memory] = options.masks;
  refuse_unless(encoder.empty() && decoder.empty() && memory.size() <= 1, "seq2seq",
                "it has one attention, to the memory, and takes one mask for it");
  Pass pass(config_, batch);
  const Tensor hidden =
      parts_->run(batch, {}, pass, options.threads, observer, memory.empty() ? Mask() : memory.front());
  Tensor logits = Tensor::uninitialized({hidden.size(0), config_.output_vocab()}, hidden.dtype());
  matmul(hidden, parts_->target_table().projection(), logits,
         {.bias = parts_->logits_bias.value, .threads = options.threads});
  return logits;
}

LossSum RecurrentEncoderDecoder::loss(const PairBatch& batch) const {
  Pass pass(config_, batch);
  Tensor unpacked;
  return cross_entropy(classes(parts_->target_table(), parts_->logits_bias.value, unpacked),
                       parts_->run(batch, {}, pass), batch.target, {.excluded = config_.padding});
}

LossSum RecurrentEncoderDecoder::backward(const PairBatch& batch, const EncoderDecoderTrainingOptions& options) {
  Parts& parts = *parts_;
  const Dropout dropout{.p = options.dropout, .seed = options.seed};
  Pass pass(config_, batch);
  const Tensor hidden = parts.run(batch, dropout, pass);
  Embedding& table = parts.target_table();
  Tensor unpacked;
  Tensor grad = Tensor::zeros(hidden.shape(), hidden.dtype());
  const LossSum sum = cross_entropy(
      classes(table, parts.logits_bias.value, unpacked), hidden, counted(batch, options),
      {.smoothing = options.label_smoothing, .excluded = options.only ? std::nullopt : std::optional(config_.padding)},
      {.hidden = grad, .weight = gradient_view(table.weight()), .bias = gradient_view(parts.logits_bias)});
  auto [grad_target, grad_memory, grad_states] =
      parts.decoder.backward({pass.target_rows, batch.target_offsets}, pass.memory, dropout_at(dropout, kDecoder),
                             pass.decoder, grad, options.observer);
  const int directions = config_.directions;
  const Tensor hidden_states = apart(grad_states.hidden, directions), cells = apart(grad_states.cell, directions);
  Tensor grad_source = Tensor::zeros(pass.source_rows.shape(), grad.dtype());
  const bool has_cell = config_.cell == RecurrentCell::lstm;
  parts.encoder.backward(
      {pass.source_rows, batch.source_offsets}, {}, dropout_at(dropout, kEncoder), pass.encoder,
      {.out = grad_memory, .states = {.hidden = hidden_states, .cell = has_cell ? cells.view() : TensorView()}},
      {.x = grad_source});
  drop(dropout_at(dropout, kTarget), grad_target, grad_target, 0);
  drop(dropout_at(dropout, kSource), grad_source, grad_source, 0);
  scale_rows(grad_target, parts.scale);
  scale_rows(grad_source, parts.scale);
  table.backward(pass.target, grad_target);
  parts.source.backward(batch.source, grad_source);
  return sum;
}

// The decoder as generate() uses it: one more token for every row.
class RecurrentEncoderDecoder::Targets final : public NextTokens {
 public:
  Targets(const Parts& parts, const RecurrentEncoderDecoderConfig& config, RecurrentMemory memory,
          const EncoderDecoderOptions& options)
      : parts_(parts),
        vocab_(config.output_vocab()),
        options_(options),
        memory_(std::move(memory)),
        states_(memory_.states),
        sequence_of_(static_cast<std::size_t>(memory_.offsets.size(0) - 1)) {
    std::iota(sequence_of_.begin(), sequence_of_.end(), 0);
  }

  std::int64_t vocab() const override { return vocab_; }

  MutableTensorView step(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens) override {
    const StopScope stop(options_.stop);
    states_ = {.hidden = chosen(states_.hidden, parents), .cell = chosen(states_.cell, parents)};
    std::vector<std::int64_t> rows_of(static_cast<std::size_t>(memory_.offsets.size(0) - 1)), sequence_of;
    for (const std::int64_t parent : parents) {
      sequence_of.push_back(sequence_of_.at(static_cast<std::size_t>(parent)));
      ++rows_of[static_cast<std::size_t>(sequence_of.back())];
    }
    refuse_unless(std::ranges::is_sorted(sequence_of), "seq2seq", "rows must be in the order of their sequences");
    sequence_of_ = std::move(sequence_of);
    const Tensor hidden = parts_.decoder.step(parts_.embed(parts_.target_table(), tokens), offsets_of(rows_of), memory_,
                                              states_, options_.threads);
    logits_ = Tensor::uninitialized({hidden.size(0), vocab_}, hidden.dtype());
    matmul(hidden, parts_.target_table().projection(), logits_,
           {.bias = parts_.logits_bias.value, .threads = options_.threads});
    return logits_;
  }

 private:
  // The rows [layers, rows, size] that go on.
  static Tensor chosen(const Tensor& states, std::span<const std::int64_t> parents) {
    if (states.element_count() == 0) return states;
    Tensor rows = Tensor::uninitialized({states.size(0), std::ssize(parents), states.size(2)}, states.dtype());
    for (std::int64_t i = 0; i < std::ssize(parents); ++i) {
      convert(states.view().select(1, parents[static_cast<std::size_t>(i)]), rows.view().select(1, i));
    }
    return rows;
  }

  const Parts& parts_;
  const std::int64_t vocab_;
  const EncoderDecoderOptions options_;
  const RecurrentMemory memory_;
  RecurrentStates<Tensor> states_;
  std::vector<std::int64_t> sequence_of_;  // of each row
  Tensor logits_;
};

std::unique_ptr<NextTokens> RecurrentEncoderDecoder::decoder(std::span<const std::int32_t> ids, const Tensor& offsets,
                                                             const EncoderDecoderOptions& options) const {
  const StopScope stop(options.stop);
  refuse_masks("seq2seq", options);
  check_positions("seq2seq", ids.size(), offsets, config_.positions);
  RecurrentSaved saved;
  return std::make_unique<Targets>(
      *parts_, config_, parts_->encode(parts_->embed(parts_->source, ids), offsets, {}, saved, options.threads),
      options);
}

std::string RecurrentEncoderDecoder::config_text() const {
  return "recurrent " + QKV_CHANGED_FIELDS(RecurrentEncoderDecoderConfig, config_, kind, cell, vocab, target_vocab,
                                           positions, model_dim, layers, directions, end, padding, start);
}

void RecurrentEncoderDecoder::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(parts_->source, scope + (parts_->target ? std::string("encoder.") + kTable : kShared));
  walk(parts_->target, scope + "decoder." + kTable);
  walk(parts_->logits_bias, scope + kLogitsBias);
  walk(parts_->encoder, scope + "encoder.rnn.");
  walk(parts_->decoder, scope);
}

}  // namespace qkv
