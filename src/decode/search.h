// The search for one sequence: what it has generated so far, and the next step of the model.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "qkv/decode/generate.h"

namespace qkv::inline decoding {

class Search {
 public:
  // How the sequence goes on: row `parent` of this search, of the last step, continued with `token`.
  struct Row {
    std::int64_t parent;
    std::int32_t token;
  };

  virtual ~Search() = default;
  // `logits` [rows, vocab] belong to the rows of the last call, one row before the first call. Returns the rows to go
  // on with; none: the search is over.
  virtual std::span<const Row> advance(const MutableTensorView& logits) = 0;
  // The tokens of the only row, if there is just one.
  virtual std::span<const std::int32_t> written() const { return {}; }
  // Best first, `nbest` of them at most.
  virtual std::vector<Hypothesis> hypotheses() = 0;
};

// The tokens of a sequence, which a search does not own.
using Prompt = std::span<const std::int32_t>;

std::unique_ptr<Search> make_beams(GenerateOptions options, Prompt prompt);
// `written`: what it goes on from.
std::unique_ptr<Search> make_chain(GenerateOptions options, Prompt prompt, RandomStream stream, Hypothesis written);

bool is_end(std::int32_t token, const GenerateOptions& options);

// The token that must follow these tokens, if any.
std::optional<std::int32_t> forced_token(std::span<const std::int32_t> written, const GenerateOptions& options);

// One row of logits, of what may follow `written` behind the prompt, penalised, with its log-sum-exp. Tokens that may
// not become -infinity. The log-sum-exp is that of the model's own logits, so that these keep their share of the
// probability, or that of the row after the penalties: `renormalize`. std::invalid_argument if the logits are no
// numbers.
struct LogitRow {
  std::span<float> logits;
  double log_sum_exp;

  LogitRow(const MutableTensorView& rows, std::int64_t row, Prompt prompt, std::span<const std::int32_t> written,
           const GenerateOptions& options);
};

}  // namespace qkv::inline decoding
