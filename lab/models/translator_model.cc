// Makes translators of each kind, and counts what they compute.
#include "lab/models/translator_model.h"

#include "lab/models/recurrent_encoder_decoder.h"
#include "qkv/models/transformer_encoder_decoder.h"

namespace qkv::comparison {
namespace {

constexpr std::int64_t kSideLayers = 2, kSideHeads = 2;  // of the Transformer, on each side

TransformerEncoderDecoderConfig transformer_config(const TranslatorConfig& config) {
  const EncoderDecoderTokens& tokens = config.tokens;
  return {.vocab = tokens.vocab,
          .target_vocab = tokens.target_vocab,
          .positions = tokens.positions,
          .model_dim = config.model_dim,
          .encoder_layers = kSideLayers,
          .decoder_layers = kSideLayers,
          .encoder_heads = kSideHeads,
          .decoder_heads = kSideHeads,
          .encoder_ff_dim = config.ff_dim,
          .decoder_ff_dim = config.ff_dim,
          .norm_order = NormOrder::pre,
          .end = tokens.end,
          .padding = tokens.padding,
          .start = tokens.start};
}

RecurrentEncoderDecoderConfig recurrent_config(const TranslatorConfig& config) {
  const EncoderDecoderTokens& tokens = config.tokens;
  const auto kind = [&] {
    if (config.kind == TranslatorKind::fixed) return RecurrentAttentionKind::fixed;
    return config.kind == TranslatorKind::additive ? RecurrentAttentionKind::additive : RecurrentAttentionKind::dot;
  };
  return {.kind = kind(),
          .vocab = tokens.vocab,
          .target_vocab = tokens.target_vocab,
          .positions = tokens.positions,
          .model_dim = config.model_dim,
          .end = tokens.end,
          .padding = tokens.padding,
          .start = tokens.start};
}

std::unique_ptr<EncoderDecoder> initial(const TranslatorConfig& config, std::uint64_t seed) {
  if (config.kind != TranslatorKind::transformer) {
    return std::make_unique<RecurrentEncoderDecoder>(RecurrentEncoderDecoder::initial(recurrent_config(config), seed));
  }
  return std::make_unique<TransformerEncoderDecoder>(
      TransformerEncoderDecoder::initial(transformer_config(config), seed));
}

std::unique_ptr<EncoderDecoder> made_of(const TranslatorConfig& config, Weights& weights) {
  if (config.kind != TranslatorKind::transformer) {
    return std::make_unique<RecurrentEncoderDecoder>(recurrent_config(config), weights);
  }
  return std::make_unique<TransformerEncoderDecoder>(transformer_config(config), weights);
}

using Node = DependencyGraph::Node;
using Nodes = std::vector<Node>;

// The first `count` of them, and `more`.
Nodes first(const Nodes& nodes, std::size_t count, const Nodes& more = {}) {
  Nodes some(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(count));
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

// A state after each token; of the decoder additive attention comes before each step, that of dot products after it.
Nodes connect_recurrent(DependencyGraph& graph, TranslatorKind kind, const Nodes& source, const Nodes& target) {
  Nodes memory, outputs;
  for (const Node token : source) {
    memory.push_back(graph.add_step(memory.empty() ? Nodes{token} : Nodes{token, memory.back()}));
  }
  Node state = memory.back();
  for (const Node token : target) {
    if (kind == TranslatorKind::additive) {
      const Node context = graph.add_step(first(memory, memory.size(), {state}));
      state = graph.add_step({token, state, context});
      outputs.push_back(graph.add_step({state, context}));
    } else {
      state = graph.add_step({token, state});
      if (kind == TranslatorKind::fixed) outputs.push_back(state);
      if (kind == TranslatorKind::dot) outputs.push_back(graph.add_step(first(memory, memory.size(), {state})));
    }
  }
  return outputs;
}

// Attention and feed-forward in each layer; on the target side attention to what came before, then to the memory.
Nodes connect_transformer(DependencyGraph& graph, const Nodes& source, const Nodes& target) {
  Nodes memory = source, outputs = target;
  for (std::int64_t layer = 0; layer < kSideLayers; ++layer) {
    Nodes next;
    for (std::size_t t = 0; t < memory.size(); ++t) next.push_back(graph.add_step({graph.add_step(memory)}));
    memory = std::move(next);
  }
  for (std::int64_t layer = 0; layer < kSideLayers; ++layer) {
    Nodes next;
    for (std::size_t t = 0; t < outputs.size(); ++t) {
      const Node own = graph.add_step(first(outputs, t + 1));
      next.push_back(graph.add_step({graph.add_step(first(memory, memory.size(), {own}))}));
    }
    outputs = std::move(next);
  }
  return outputs;
}

}  // namespace

TranslatorModel::TranslatorModel(const TranslatorConfig& config, std::uint64_t seed)
    : config_(config), model_(initial(config, seed)) {}

TranslatorModel::TranslatorModel(const TranslatorConfig& config, Weights weights)
    : config_(config), model_(made_of(config, weights)) {}

SequenceGraph TranslatorModel::graph(std::int64_t length) const {
  SequenceGraph sequence;
  Nodes target;
  for (std::int64_t t = 0; t < length; ++t) sequence.inputs.push_back(sequence.graph.add_input());
  for (std::int64_t t = 0; t < length; ++t) target.push_back(sequence.graph.add_input());
  sequence.outputs = config_.kind == TranslatorKind::transformer
                         ? connect_transformer(sequence.graph, sequence.inputs, target)
                         : connect_recurrent(sequence.graph, config_.kind, sequence.inputs, target);
  return sequence;
}

// Matrices of the encoder multiply a source token, all others a target token; of tables that of the target, which
// projects to the vocabulary.
double TranslatorModel::weight_operations() const {
  double elements = static_cast<double>(config_.tokens.output_vocab() * config_.model_dim);
  model_->visit([&](const std::string& name, const Parameter& parameter) {
    const bool is_table = name.find("embed_tokens") != std::string::npos || name.starts_with("shared.");
    if (parameter.value.rank() > 1 && !is_table) elements += static_cast<double>(parameter.value.element_count());
  });
  return 2 * elements;
}

// Each number of the value is multiplied and added, and so is each of the key; an additive score adds it to the
// query's, and multiplies what tanh makes of it by v.
double TranslatorModel::attention_operations(double pairs) const {
  const std::int64_t layers = config_.kind == TranslatorKind::transformer ? kSideLayers : 1;
  const std::int64_t of_key = config_.kind == TranslatorKind::additive ? 3 : 2, of_value = 2;
  return static_cast<double>(layers * (of_key + of_value) * config_.model_dim) * pairs;
}

double TranslatorModel::operations_at_once(std::int64_t length) const {
  const auto n = static_cast<double>(length);
  double pairs = config_.kind == TranslatorKind::fixed ? 0 : n * n;
  if (config_.kind == TranslatorKind::transformer) pairs += n * n + n * (n + 1) / 2;  // of the source, of the target
  return weight_operations() + attention_operations(pairs) / n;
}

double TranslatorModel::operations_in_turn(std::int64_t length) const {
  const auto n = static_cast<double>(length);
  double pairs = config_.kind == TranslatorKind::fixed ? 0 : n;
  if (config_.kind == TranslatorKind::transformer) pairs += n + n + 1;
  return weight_operations() + attention_operations(pairs);
}

}  // namespace qkv::comparison
