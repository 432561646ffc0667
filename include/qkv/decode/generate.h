/// \file
/// Generates sequences token by token: greedy, beam search, sampling. The rules follow transformers' generate(): a
/// beam's score is the sum of its tokens' log-probabilities / length^length_penalty, the end token counted. Source of
/// the search: Sutskever et al., "Sequence to sequence learning with neural networks" (2014); of sampling from the
/// nucleus: Holtzman et al., "The curious case of neural text degeneration" (2019).
///
///     std::vector<std::vector<Hypothesis>> best = generate(model, batch, {.start = 7999, .ends = {0}, .beams = 4});
///     best = generate(*language_model.next_tokens(prompts), prompts, {.ends = {0}, .sampling = Sampling{.top_p =
///     0.9}});
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "qkv/api.h"
#include "qkv/tensor.h"

namespace qkv {

/// A model that generates step by step: it keeps the state of every row of the last step.
class QKV_API NextTokens {
 public:
  virtual ~NextTokens() = default;
  virtual std::int64_t vocab() const = 0;
  /// Row r continues row parents[r] of the step before with tokens[r]; in the first step parents are sequences of the
  /// batch and tokens the last one of each prompt, which is the start token if nothing else was given. Returns logits,
  /// f32 [rows, vocab], which the caller may overwrite.
  /// In later steps row -1 - i begins sequence i, where GenerateOptions::rows keeps some waiting.
  virtual MutableTensorView step(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens) = 0;
  /// The same, of runs: the next lengths[r] tokens continue row parents[r] one after the other, and each is a row of
  /// this step, with the bits of as many steps. std::invalid_argument: the model has none.
  virtual MutableTensorView step_runs(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens,
                                      std::span<const std::int64_t> lengths);
  /// One more sequence, numbered behind those there are, that a later step begins. std::invalid_argument: the model has
  /// none, and for a prompt that it cannot read.
  virtual void add(std::span<const std::int32_t> prompt);
};

inline constexpr std::int64_t kMaxBeams = 1024;

struct Sampling {
  double temperature = 1;  ///< logits are divided by it
  std::int64_t top_k = 0;  ///< only the k most probable tokens; 0: all
  double top_p = 1;        ///< of these the fewest most probable ones whose probabilities sum to at least this
  double min_p = 0;        ///< of these the ones that are at least this times as probable as the most probable one
  std::uint64_t seed = 0;
};

/// When the search for `beams` hypotheses is over: at once when they have ended, or when nothing that goes on can have
/// a better score, which is judged by the sum of log-probabilities so far over a length.
enum class EarlyStopping {
  no,     ///< the length so far: with length_penalty above 0 something better may be missed
  yes,    ///< at once
  never,  ///< the length that makes the score largest: nothing is missed
};

/// Guesses of what follows, several tokens that the model then reads at once. `lookup`: what followed the last tokens
/// where they occurred before. The text has the same bits; repetitive text takes less time. Source: Saxena, "Prompt
/// lookup decoding" (2023).
enum class Drafts { none, lookup };

/// Where `start` is named, the tokens of a prompt take its place.
struct GenerateOptions {
  std::int32_t start = 0;
  std::vector<std::int32_t> ends{0};                   ///< each of them ends a sequence; none: max_length does
  std::vector<std::vector<std::int32_t>> forbidden{};  ///< runs of tokens that are never generated, `start` included
  std::optional<std::int32_t> forced_begin{}, forced_end{};  ///< the first token, the last of max_length; probability 1
  std::int64_t max_length = 512;                             ///< new tokens: `start` is not counted, the end is
  std::int64_t min_length = 0;                               ///< new tokens before the end may follow
  std::int64_t no_repeat_ngram = 0;  ///< no run of so many tokens occurs twice, `start` included; 0: off
  /// Above 1: tokens that have occurred, `start` included, become less probable; below 1: more. A negative number is
  /// multiplied by it, a positive one divided. The numbers are log-probabilities with beams, else logits.
  double repetition_penalty = 1;
  bool renormalize = false;  ///< forbidden tokens lose their share of the probability
  std::int64_t beams = 1;    ///< 1 to kMaxBeams; 1: the most probable token at each step
  std::int64_t nbest = 1;    ///< hypotheses per sequence, at most `beams`
  double length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::no;
  std::optional<Sampling> sampling{};  ///< sample tokens; beams must be 1
  Drafts drafts = Drafts::none;        ///< beams must be 1
  /// Sequences times beams that go on together, so that others begin as these end; 0: all. The model must have it.
  std::int64_t rows = 0;
  /// Called after each token, on the calling thread, with all that the sequence has written; false ends the sequence.
  /// Beams must be 1.
  std::function<bool(std::int64_t sequence, std::span<const std::int32_t> written)> on_token{};
  int threads = 0;         ///< 0: threads()
  std::stop_token stop{};  ///< polled per step
};

struct Hypothesis {
  std::vector<std::int32_t> tokens;  ///< without `start`; the end is the last one, unless max_length cut it off
  double log_probability = 0;        ///< natural logarithm, the sum over the tokens
  double score = 0;                  ///< log_probability / length^length_penalty
};

/// What a sequence's random draws depend on besides the seed.
struct RandomStream {
  std::uint64_t line = 0;
  std::uint32_t part = 0;  ///< of the line
};

/// For each of `batch` sequences its hypotheses, best first, independent of the others. `streams`: what each sequence
/// draws from; not given: part 0 of the line that is its index. Equal logits: the lower token wins.
/// Errors: std::invalid_argument for options that do not fit, and for logits that are NaN or infinite; Stopped.
QKV_API std::vector<std::vector<Hypothesis>> generate(NextTokens& model, std::int64_t batch,
                                                      const GenerateOptions& options,
                                                      std::span<const RandomStream> streams = {});

/// What a sequence has of its own.
struct SequenceStart {
  RandomStream stream{};
  std::optional<std::int64_t> max_length{}, min_length{};  ///< instead of the options'
  /// Generated before, from the same start: the hypothesis continues it, as if never interrupted. Beams must be 1.
  Hypothesis written{};
};

/// The same behind a prompt of at least one token for each sequence, which the hypotheses do not repeat. `starts`: of
/// each sequence; none: streams as above.
QKV_API std::vector<std::vector<Hypothesis>> generate(NextTokens& model,
                                                      std::span<const std::vector<std::int32_t>> prompts,
                                                      const GenerateOptions& options,
                                                      std::span<const SequenceStart> starts = {});

/// A sequence on its way into generate_running().
struct ComingSequence {
  std::vector<std::int32_t> prompt{};  ///< at least one token
  SequenceStart start{};
};

/// The same of sequences that come while others are written, numbered from 0: each joins them as soon as `rows` leaves
/// room, and leaves them when it ends. `next` gives one; if none has come, nothing, and the others go on; nothing where
/// `idle` says that there are no others is the end. `ended` is called with each as it ends. Both on the calling thread.
/// The model must have add().
QKV_API void generate_running(NextTokens& model, const std::function<std::optional<ComingSequence>(bool idle)>& next,
                              const std::function<void(std::int64_t sequence, std::vector<Hypothesis> found)>& ended,
                              const GenerateOptions& options);

}  // namespace qkv
