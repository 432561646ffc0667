/// \file
/// Shows what the attention heads of a model attend to in an input: one line per head to find the interesting ones,
/// then one head in full. All weights come from the model's own run, through an observer.
///
///     EncodedText text(model, tokenizer.encode("It was too tired."));
///     std::cout << to_text(survey_heads(text));
///     HeadTrace trace = trace_head(text, {.layer = 3, .head = 7});
///     std::cout << to_text(trace, find_token(trace.tokens, "it"));
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/explain/explain.h"
#include "qkv/explain/explainable.h"

namespace qkv {

/// Means over all queries. Shares are parts of a query's weight, 0 if there is no such key.
struct HeadSummary {
  double entropy = 0;   ///< nats: 0 if one token has all the weight, log(tokens) if all have the same; exp of it is
                        /// the effective number of tokens
  double distance = 0;  ///< in tokens, either way
  double first = 0;     ///< to token 0
  double previous = 0;  ///< to the token before
  double next = 0;      ///< to the token after
  double itself = 0;
  double separators = 0;  ///< to special tokens other than token 0
  /// For causal attention over ids, over queries whose token occurred before: shares of the tokens after those earlier
  /// copies, and of the copies. Source: Olsson et al., "In-context learning and induction heads" (2022).
  double induction = 0;
  double duplicate = 0;
};

/// The kind of a head, by the means of its summary: the first of previous, next, itself, induction, duplicate, first
/// and separators whose share is at least half; alignment: between two sequences, with at most half of the largest
/// entropy; spread: at least 0.9 of it. Between two sequences positions say nothing: previous, next and itself are left
/// out. In a survey a head has none but spread if its mask alone, each query's weight spread evenly over the keys that
/// it sees, would put less than a fifth of its weight elsewhere.
enum class HeadPattern { none, previous, next, itself, induction, duplicate, first, separators, alignment, spread };
QKV_API const char* name_of(HeadPattern pattern);
QKV_API HeadPattern pattern_of(const HeadSummary& summary, double largest_entropy, bool between_two_sequences);

/// `weights` is [queries, keys], f32 or f64, rows sum to 1; `special` has one entry per key, as Encoding has. Where
/// queries and keys are of two sequences, distance, previous, next and itself compare their positions. `ids`: of the
/// tokens of causal attention; none: induction and duplicate are 0.
QKV_API HeadSummary summarize_head(const TensorView& weights, std::span<const std::uint8_t> special,
                                   std::span<const std::int32_t> ids = {});

/// Maps of the heads of an attention with more than 64 queries or keys, and exact numbers of kept heads.
struct HeadMapsOptions {
  std::vector<HeadIndex> keep{};          ///< at most 4, each query's 32 strongest keys
  std::vector<std::int64_t> keep_rows{};  ///< at most 16 queries, whose whole rows are kept of these heads
  std::size_t bytes = 19'000'000;         ///< that JSON and tables of the survey may take; maps are as fine as fits
};

struct SurveyOptions {
  bool keep_weights = false;  ///< of every head: layers x heads x tokens^2 numbers
  /// Makes maps; attentions with at most 64 queries and keys keep all weights. Maps take 4 bytes a cell, plus one
  /// layer's weights at a time.
  std::optional<HeadMapsOptions> maps{};
};

/// A map of the weights [queries, keys] of one head, f32.
struct HeadMap {
  Tensor blocks{};  ///< [r, c]: means over equal parts; query i is in part floor(i r / queries)
  Tensor top_keys{},
      top_weights{};  ///< of a head kept: [queries, top], the largest first; key -1, i64: no weight is left
  Tensor rows{};      ///< of a head kept: [kept rows, keys]
};

/// The output of a sublayer for each token.
struct SublayerVectors {
  std::string name;               // as the observer receives it: "layers.0.feed_forward"
  std::string part;               // "embedding", "positions", "attention", "feed_forward", "norm" or "recurrent"
  std::size_t sequence = 0;       ///< the sequence of these tokens, by its number
  std::int64_t size = 0;          ///< of a vector
  std::vector<double> lengths{};  ///< the root of the sum of squares, a token each
};

struct HeadSurvey {
  struct Entry {
    HeadIndex index;
    HeadSummary summary;
    HeadPattern pattern = HeadPattern::none;
    /// The lengths of the values as they leave W_O, [keys], f64, and the mean over the queries of the sum over the keys
    /// of weight times length. Source: Kobayashi et al., "Attention is not only a weight" (2020).
    Tensor value_lengths{};
    double value_norm = 0;
    Tensor weights{};  ///< [queries, keys], f64; only if they were to be kept
    std::optional<HeadMap> map{};
  };
  std::string fingerprint{};  ///< of the model (qkv/pipelines/fingerprint.h), for JSON; empty: not known
  Attentions attentions{};
  std::vector<Entry> heads{};  ///< attention by attention, layer by layer
  /// With an alignment: [output words, source words], f64; a row sums to 1, or is 0. By how much the log-probability of
  /// the word falls when the source word is hidden from its attention, at least 0; and the weights of all layers and
  /// heads of that attention, summed over the tokens of both words, without special ones. How well each aligns words:
  /// docs/lab/alignment.md.
  Tensor word_alignment{};
  Tensor word_weights{};
  std::vector<SublayerVectors> sublayers{};  ///< in the order of computation
  /// For each attention the cost of the call of its first layer; none: its scores are no dot products.
  std::vector<std::optional<AttentionPlan>> costs{};
  std::vector<std::int64_t> kept_rows{};  ///< of maps
};

/// One head at work on one input. The kernel computes in f32; the tensors hold its numbers as f64.
struct HeadTrace {
  std::string title;
  std::string fingerprint{};  ///< of the model (qkv/pipelines/fingerprint.h), for JSON; empty: not known
  HeadIndex index;
  std::int64_t heads = 0;           ///< of the layer
  std::int64_t model_dim = 0;       ///< the size of the layer's inputs
  std::vector<std::string> tokens;  ///< the queries
  std::vector<std::string> keys;    ///< the keys; in self-attention the same tokens
  Tensor query;                     ///< [tokens, head_dim]
  Tensor key, value;                ///< [keys, head_dim]
  Score::Kind score = Score::Kind::scaled_dot;
  Tensor v;       ///< additive: [head_dim]
  Tensor scores;  ///< [tokens, keys], in f64: query . key, or v . tanh(query + key)
  double scale = 1;
  Tensor bias;             ///< [tokens, keys], in f64, added to scale * scores; no elements: none
  double soft_cap = 0;     ///< logits = cap * tanh((scale * scores + bias) / cap); 0: off
  Tensor logits, weights;  ///< [tokens, keys]; a hidden key has logit -infinity
  Tensor log_sum_exp;      ///< [tokens], in f64, of the logits
  std::string attention;   ///< the name of the site
  bool causal = false;     ///< keys after a query are hidden
  std::int64_t cut = 0;    ///< tokens at the end of the text that were not read
  Tensor output;           ///< [tokens, head_dim]
  Tensor value_lengths;    ///< [keys]: of the values as they leave W_O
  Tensor value_norms;      ///< [tokens, keys]: weight times length of the value
  HeadSummary summary;
  std::string target;                   ///< the CPU target that ran
  double logits_difference = 0;         ///< the largest between logits and scale * scores + bias, capped
  double output_difference = 0;         ///< the largest between output and weights x value in f64
  std::optional<AttentionPlan> cost{};  ///< of the call of its layer; none: as in HeadSurvey
};

/// Errors as from the run; std::invalid_argument if there is no such layer, head or row, or a report cannot keep so
/// many.
QKV_API HeadSurvey survey_heads(const Explainable& input, const SurveyOptions& options = {});
QKV_API HeadTrace trace_head(const Explainable& input, const HeadIndex& index);

/// The keys of one row of weights, f64, by falling weight; equal weights: lower key first. Weights that are not
/// numbers, as a broken model has, come last.
QKV_API std::vector<std::int64_t> keys_by_weight(const TensorView& weights, std::int64_t token);

/// The first token that reads `name`, or "##" and `name`, as a piece of a word; else the one of that number.
/// std::invalid_argument, listing the tokens, if there is neither.
QKV_API std::int64_t find_token(std::span<const std::string> tokens, const std::string& name);

/// With heat, maps of the heads whose weights were kept.
QKV_API std::string to_text(const HeadSurvey& survey, const TextStyle& style = {});
/// The two texts of its alignment, and which words attended to which. std::invalid_argument if it has none.
QKV_API std::string words_to_text(const HeadSurvey& survey, const TextStyle& style = {});
/// Who attends to whom; with a token, also its computation step by step.
QKV_API std::string to_text(const HeadTrace& trace, std::optional<std::int64_t> token = {},
                            const TextStyle& style = {});

/// Its weights as an SVG picture, with a row for each token and a column for each key.
QKV_API std::string to_svg(const HeadTrace& trace);

/// One JSON object with all that the text shows, every number in full; a survey with the weights that were kept.
QKV_API std::string to_json(const HeadSurvey& survey);
QKV_API std::string to_json(const HeadTrace& trace, std::optional<std::int64_t> token = {});

}  // namespace qkv
