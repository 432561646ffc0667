/// \file
/// How much one token depends on each key and each head, by several measures, compared with the effect of removing that
/// key or head. Weights say where a head looks, not what effect it has: Spearman's rank correlation says how similarly
/// a measure and the knock-out rank keys and heads of this text.
///
/// Asked about is a token t: of a model that writes the log-probability of the t-th token written; of an encoder the
/// last vector of token t; of a head (judged_text.h) its t-th output, a log-probability or a logit. Rows: the row of t
/// if t is among the queries of an attention, else all rows. With layers l, heads h, queries i of those rows, w the
/// weights:
///
///     measure      of a key j                              of a head h
///     weight       mean over l, h, i of w_ij               -
///     value norm   sum over l, h, mean over i of           sum over j, mean over i of the same
///                  w_ij ||v_j W_O^h||
///     gradient     sum over l, h, all queries i of         sum over j, all queries i of the same
///                  w_ij d(log-probability)/d(w_ij)
///     rollout      t's row of the product over l of        -
///                  (A + I) / 2, A = mean over h of w
///     knock-out    by how much the log-probability falls, or the cosine of the vector to its own below 1, if j is
///                  hidden from every query in all layers of its attention; if the output of h is 0
///
/// A gradient takes all other weights as they are: d/d(w_ij) = g_i . v_j, g_i the gradient of the head's output.
/// Sources: Kobayashi et al., "Attention is not only a weight" (2020), value norm; Barkan et al., "Grad-SAM" (2021),
/// and Chefer et al., "Transformer interpretability beyond attention visualization" (2021), gradient times weight, of
/// which they take the positive part; Abnar, Zuidema, "Quantifying attention flow in Transformers" (2020), rollout; Li,
/// Monroe, Jurafsky, "Understanding neural networks through representation erasure" (2016), knock-out; Jain, Wallace,
/// "Attention is not explanation" (2019), the comparison.
///
///     EncodedText text(model, tokenizer.encode("It was too tired."));
///     std::cout << to_text(measure_token(text, 3));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/explain/explain.h"
#include "qkv/explain/explainable.h"

namespace qkv {

enum class Measure { weight, value_norm, gradient, rollout, knock_out };
QKV_API const char* name_of(Measure measure);  // "weight", "value_norm", ...

struct MeasuredBy {
  Measure measure = Measure::weight;
  std::vector<double> values{};
  std::optional<double> correlation{};  ///< with knock-out; none: of fewer than two numbers, or of equal ones
};

inline constexpr std::size_t kMostMeasured = 512;  ///< tokens of a sequence; of more there is the rollout alone

struct TokenMeasures {
  /// The first keys of an attention, on which the token can depend.
  struct Keys {
    std::size_t site = 0;
    std::vector<MeasuredBy> by{};
  };
  std::string fingerprint{};  ///< of the model (qkv/pipelines/fingerprint.h), for JSON; empty: not known
  Attentions attentions{};
  std::int64_t token = 0;
  std::size_t sequence = 0;                 ///< the sequence of the token, by its number
  std::optional<double> log_probability{};  ///< of a token that was written, or of a head's output
  std::optional<double> score{};            ///< of a head's output that is a logit
  std::vector<Keys> keys{};                 ///< of each attention
  std::vector<HeadIndex> heads{};           ///< of all attentions; none: the text is too long
  std::vector<MeasuredBy> by_heads{};       ///< one value per head
  /// For a head's output one value per word of the text: the sum of its tokens' gradients, and their knock-out
  /// together.
  std::vector<MeasuredBy> by_words{};
};

/// Which sequence has the tokens that can be asked about.
QKV_API std::size_t measured_sequence(const Attentions& attentions);

/// Runs the model once for each key and each head. Errors as from the run; std::invalid_argument if there is no such
/// token. Gradients: generating models with nothing left out; rollout: encoders.
QKV_API TokenMeasures measure_token(const Explainable& input, std::int64_t token);

QKV_API std::string to_text(const TokenMeasures& measures, const TextStyle& style = {});
/// What each word did for an output of a head. std::invalid_argument for another token.
QKV_API std::string words_to_text(const TokenMeasures& measures, const TextStyle& style = {});
QKV_API std::string to_json(const TokenMeasures& measures);  ///< docs/explain_json.md

}  // namespace qkv
