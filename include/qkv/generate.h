// Writing sequences token by token: greedy, beam search, sampling. The rules are those of transformers' generate():
// a beam's score is the sum of its tokens' log-probabilities / length^length_penalty, the end token counted.
// Source of the search: Sutskever et al., "Sequence to sequence learning with neural networks" (2014); of sampling from
// the nucleus: Holtzman et al., "The curious case of neural text degeneration" (2019).
//
//   std::vector<std::vector<Hypothesis>> best = generate(model, batch, {.end = 0, .start = 7999, .beams = 4});
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "qkv/tensor.h"

namespace qkv {

// A model in the middle of writing: it keeps what it knows of every row of the last step.
class NextTokens {
 public:
  virtual ~NextTokens() = default;
  virtual std::int64_t vocab() const = 0;
  // Row r continues row parents[r] of the step before with tokens[r]; in the first step parents are sequences of the
  // batch and tokens the start token. Returns logits, f32 [rows, vocab], which the caller may overwrite.
  virtual MutableTensorView step(std::span<const std::int64_t> parents, std::span<const std::int32_t> tokens) = 0;
};

inline constexpr std::int64_t kMaxBeams = 1024;

struct Sampling {
  double temperature = 1;  // logits are divided by it
  std::int64_t top_k = 0;  // only the k most probable tokens; 0: all
  double top_p = 1;        // of these the fewest most probable ones whose probabilities sum to at least this
  std::uint64_t seed = 0;
};

struct GenerateOptions {
  std::int32_t start = 0, end = 0;
  std::vector<std::int32_t> forbidden{};  // tokens that are never written
  // Tokens that have a fixed place, with probability 1: the first one, and `end` as the last one of max_length.
  std::optional<std::int32_t> forced_begin{};
  bool forced_end = false;
  std::int64_t max_length = 512;     // new tokens: `start` is not counted, `end` is
  std::int64_t min_length = 0;       // new tokens before `end` may follow
  std::int64_t no_repeat_ngram = 0;  // so many tokens in a row, `start` among them, come once at most; 0: any number
  std::int64_t beams = 1;            // 1 to kMaxBeams; 1: the most probable token at each step
  std::int64_t nbest = 1;            // hypotheses per sequence, at most `beams`
  double length_penalty = 1;
  bool early_stopping = false;         // stop as soon as `beams` hypotheses have ended, whatever may come
  std::optional<Sampling> sampling{};  // draw tokens; beams must be 1
  int threads = 0;                     // 0: threads()
  std::stop_token stop{};              // polled per step
};

struct Hypothesis {
  std::vector<std::int32_t> tokens;  // without `start`; `end` is the last one, unless max_length cut it off
  double score = 0;
};

// For each of `batch` sequences its hypotheses, best first; each as if it were alone. `streams`: the random stream that
// each sequence draws from; not given: its index. Equal logits: the lower token wins.
// Errors: std::invalid_argument for options that do not fit, and for logits that are NaN or infinite; Stopped.
std::vector<std::vector<Hypothesis>> generate(NextTokens& model, std::int64_t batch, const GenerateOptions& options,
                                              std::span<const std::uint64_t> streams = {});

}  // namespace qkv
