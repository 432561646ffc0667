/// \file
/// The interface of explain to models: the attentions that an input goes through, what their queries and keys are
/// called, and the run itself, seen by an observer. A kind of model that implements it is explained: its heads are
/// surveyed, traced, written as text and as JSON (explain_model.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/attention/mask.h"
#include "qkv/attention/relative_table.h"
#include "qkv/attention/score.h"
#include "qkv/observer.h"

namespace qkv {

/// The words that the tokens of a sequence form.
struct TokenWords {
  std::vector<std::string> words{};
  std::vector<std::int64_t> word_of{};  ///< for each token; below 0: it is no part of one
};

/// What attends or is attended to.
struct AttentionSequence {
  std::string name;                     // "source"
  std::string caption{};                // before its list in texts: "The encoder reads:  "
  std::vector<std::string> tokens{};    ///< a label each
  std::vector<std::uint8_t> special{};  ///< 1 for special tokens, one entry per token
  std::vector<std::int32_t> ids{};      ///< in the vocabulary; none: it has none
  TokenWords words{};                   ///< none: the tokens form none
  std::optional<std::string> scope{};   ///< before the names of their vectors, as an observer receives them; none: none
};

/// An attention that all layers of a stack have.
struct AttentionSite {
  std::string
      name;  // "attention" of a model with no other; "encoder_decoder" in JSON; "encoder-decoder" on the command line
  std::string title{};            // "Encoder-decoder attention"; empty where a model has no other
  std::string caption{};          // "tokens written attend to source tokens"
  std::string before{}, after{};  ///< what names its intermediates, around the number of the layer
  std::int64_t layers = 0;
  std::int64_t heads = 0;      ///< of a layer
  std::int64_t kv_heads = 0;   ///< of its keys and values; 0: as many
  std::int64_t model_dim = 0;  ///< the size of a layer's inputs
  Score::Kind score = Score::Kind::scaled_dot;
  bool causal = false;                  ///< keys after a query are hidden
  std::optional<RelativeTable> bias{};  ///< added to the logits of every layer, a column for each head; borrowed
  std::vector<double> scales{};         ///< of scores, one for each layer; none: the default of the score (score.h)
  double soft_cap = 0;                  ///< logits = cap * tanh(scaled scores / cap); 0: off
  std::vector<Mask> windows{};          ///< in addition to `causal`, one for each layer; empty: none
  std::size_t queries = 0;              ///< the sequence that attends, by its number
  std::size_t keys = 0;                 ///< the sequence that is attended to

  /// The observer receives this + query, key, value, logits, weights and heads, [tokens, heads, size]; before them
  /// out_weight, where the heads' outputs are projected (multi_head_attention.h); of an additive score also v [size],
  /// and query and key as they are added, of a bilinear one the query as it is multiplied.
  std::string scope(std::int64_t layer) const { return before + std::to_string(layer) + after; }
  std::string option() const {
    std::string text = name;
    std::ranges::replace(text, '_', '-');
    return text;
  }
};

/// A token that a model wrote, or could have written in its place.
struct TokenProbability {
  std::string token{};
  std::int32_t id = 0;
  double probability = 0;
};
/// What a layer would have written if it were the last one: its most probable token, and how probable is the one that
/// was written.
struct LayerGuess {
  TokenProbability best{};
  double written = 0;
};
struct WrittenToken : TokenProbability {
  std::vector<TokenProbability> candidates{};  ///< the five most probable ones, most probable first
  std::vector<LayerGuess> layers{};            ///< of a language model, one for each layer
};

/// A text and what was written from it; an Explainable that has it has an outcome() too. A language model reads what it
/// wrote, so that source and output are parts of one text there.
struct Alignment {
  std::string source_text{}, output_text{};
  TokenWords source{}, output{};
  std::vector<WrittenToken> written{};  ///< for each token of the output
  std::size_t output_sequence = 0;      ///< by its number
  std::size_t site = 0;          ///< the attention in which query i writes output token i, from the source's keys
  std::int64_t cut = 0;          ///< tokens at the end of the source that were not read
  bool is_continuation = false;  ///< of a language model
};

/// Numbers that the head of an encoder gives of a text, each a token of a sequence of their names.
struct HeadOutputs {
  std::size_t sequence = 0;  ///< of the names, by its number
  bool are_scores = false;   ///< logits, which are no log-probabilities
  std::int64_t cut = 0;      ///< tokens at the end of the text that were not read
};

/// Layers and heads count from 0, as do the attentions of a model.
struct HeadIndex {
  std::int64_t layer = 0;
  std::int64_t head = 0;
  std::size_t site = 0;

  bool operator==(const HeadIndex&) const = default;
};
struct KeyIndex {
  std::int64_t key = 0;
  std::size_t site = 0;
};

/// What a run does without: a key is hidden from every query in all layers of its attention; the output of a head is 0.
struct LeftOut {
  std::vector<KeyIndex> keys{};
  std::vector<HeadIndex> heads{};
};

/// What a run comes to, in one of two ways.
struct Outcome {
  std::vector<double> log_probabilities{};  ///< of each token that the model wrote; or each output of a head
  Tensor outputs{};                         ///< [tokens, size]: of a model that writes none, the last vector of each
};

struct Attentions {
  std::vector<AttentionSequence> sequences{};
  std::vector<AttentionSite> sites{};
  std::string input{};  ///< what was read, in titles; may be empty
  std::optional<Alignment> alignment{};
  LeftOut left_out{};                  ///< by the run
  std::vector<std::string> remarks{};  ///< sentences that a reader must know
  std::optional<HeadOutputs> outputs{};
};

/// A model and its input.
class QKV_API Explainable {
 public:
  virtual ~Explainable() = default;
  virtual const Attentions& attentions() const = 0;
  virtual void run(Observer& observer) const = 0;
  /// The outcome of a run that leaves out more. std::invalid_argument if that does not exist, or the kind of model does
  /// not support it.
  virtual Outcome outcome(const LeftOut& more) const;
  /// For a generating model, the backward pass from minus the log-probability of one generated token; for a head, from
  /// minus one of its outputs. The observer receives scope + heads_gradient, of the heads' outputs. For other models,
  /// nothing.
  virtual void run_backward(std::int64_t /*written*/, Observer& /*observer*/) const {}
};

}  // namespace qkv
