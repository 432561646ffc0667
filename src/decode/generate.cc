// generate(): checks the options and steps all sequences of a batch together.
#include "qkv/decode/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "core/refuse.h"
#include "core/stop.h"
#include "decode/lookup.h"
#include "decode/search.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/error.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

void check_token(const char* name, std::int32_t token, std::int64_t vocab) {
  refuse_unless(token >= 0 && token < vocab, "generate", "{} token {} is not in the vocabulary of {}", name, token,
                vocab);
}

void check(const GenerateOptions& options, std::int64_t vocab) {
  for (const std::int32_t token : options.ends) check_token("end", token, vocab);
  for (const auto& run : options.forbidden) {
    refuse_unless(!run.empty(), "generate", "forbidden has a run without tokens");
    for (const std::int32_t token : run) check_token("forbidden", token, vocab);
  }
  if (options.forced_begin) check_token("forced begin", *options.forced_begin, vocab);
  if (options.forced_end) check_token("forced end", *options.forced_end, vocab);
  refuse_unless(options.min_length >= 0, "generate", "min_length is {}, at least 0 is needed", options.min_length);
  refuse_unless(options.no_repeat_ngram >= 0, "generate", "no_repeat_ngram is {}, at least 0 is needed",
                options.no_repeat_ngram);
  refuse_unless(std::isfinite(options.repetition_penalty) && options.repetition_penalty > 0, "generate",
                "repetition_penalty is {}, must be above 0", options.repetition_penalty);
  refuse_unless(options.max_length >= 1, "generate", "max_length is {}, at least 1 is needed", options.max_length);
  refuse_unless(options.beams >= 1 && options.beams <= kMaxBeams, "generate", "beams is {}, must be from 1 to {}",
                options.beams, kMaxBeams);
  refuse_unless(options.nbest >= 1 && options.nbest <= options.beams, "generate",
                "nbest is {}, must be from 1 to the number of beams, {}", options.nbest, options.beams);
  refuse_unless(std::isfinite(options.length_penalty), "generate", "length_penalty is not a finite number");
  refuse_unless(!options.on_token || options.beams == 1, "generate", "on_token needs 1 beam, not {}", options.beams);
  refuse_unless(options.drafts == Drafts::none || options.beams == 1, "generate", "drafts need 1 beam, not {}",
                options.beams);
  refuse_unless(options.rows >= 0, "generate", "rows is {}, at least 0 is needed", options.rows);
  if (!options.sampling) return;
  const Sampling& sampling = *options.sampling;
  refuse_unless(options.beams == 1, "generate", "sampling needs 1 beam, not {}", options.beams);
  refuse_unless(std::isfinite(sampling.temperature) && sampling.temperature > 0, "generate",
                "temperature is {}, must be above 0", sampling.temperature);
  refuse_unless(sampling.top_k >= 0, "generate", "top_k is {}, must be at least 0", sampling.top_k);
  refuse_unless(sampling.top_p > 0 && sampling.top_p <= 1, "generate", "top_p is {}, must be above 0 and at most 1",
                sampling.top_p);
  refuse_unless(sampling.min_p >= 0 && sampling.min_p <= 1, "generate", "min_p is {}, must be from 0 to 1",
                sampling.min_p);
}

// Each token once, however often it came. Source: Keskar et al., "CTRL" (2019).
void penalize_repetition(std::span<float> logits, double zero, std::vector<std::int32_t> seen, double penalty) {
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const std::int32_t token : seen) {
    float& logit = logits[static_cast<std::size_t>(token)];
    const double x = static_cast<double>(logit) - zero;
    logit = static_cast<float>(zero + (x < 0 ? x * penalty : x / penalty));
  }
}

// Forbids tokens that would repeat an earlier run of `size` tokens.
template <class Forbid>
void forbid_repeats(std::span<const std::int32_t> all, std::int64_t size, const Forbid& forbid) {
  const std::int64_t before = size - 1;  // tokens of an n-gram but the last
  for (auto last = all.begin() + std::min<std::int64_t>(before, std::ssize(all)); last != all.end(); ++last) {
    if (std::equal(last - before, last, all.end() - before)) forbid(*last);
  }
}

}  // namespace

inline namespace decoding {

bool is_end(std::int32_t token, const GenerateOptions& options) {
  return std::find(options.ends.begin(), options.ends.end(), token) != options.ends.end();
}

std::optional<std::int32_t> forced_token(std::span<const std::int32_t> written, const GenerateOptions& options) {
  if (options.forced_end && std::ssize(written) + 1 == options.max_length) return options.forced_end;
  return written.empty() ? options.forced_begin : std::nullopt;
}

LogitRow::LogitRow(const MutableTensorView& rows, std::int64_t row, Prompt prompt,
                   std::span<const std::int32_t> written, const GenerateOptions& options)
    : logits(rows.data<float>() + row * rows.stride(0), static_cast<std::size_t>(rows.size(1))),
      log_sum_exp(qkv::log_sum_exp(logits)) {
  const auto forbid = [&](std::int32_t token) {
    logits[static_cast<std::size_t>(token)] = -std::numeric_limits<float>::infinity();
  };
  const double zero = options.beams > 1 ? log_sum_exp : 0;  // of log-probabilities, of logits
  std::vector<std::int32_t> all(prompt.begin(), prompt.end());
  all.insert(all.end(), written.begin(), written.end());
  if (options.repetition_penalty != 1) penalize_repetition(logits, zero, all, options.repetition_penalty);
  for (const auto& run : options.forbidden) {
    const std::span<const std::int32_t> before = std::span(run).first(run.size() - 1);
    if (before.size() <= all.size() && std::equal(before.begin(), before.end(), all.end() - std::ssize(before))) {
      forbid(run.back());
    }
  }
  if (std::ssize(written) < options.min_length) std::for_each(options.ends.begin(), options.ends.end(), forbid);
  if (options.no_repeat_ngram > 0) forbid_repeats(all, options.no_repeat_ngram, forbid);
  TokenLogit best;
  refuse_unless(std::isfinite(log_sum_exp) && largest_logits(logits, {&best, 1}) == 1 && std::isfinite(best.logit),
                "generate", "the model's logits are not finite: no token can be chosen");
  if (options.renormalize) log_sum_exp = qkv::log_sum_exp(logits);
}

}  // namespace decoding

MutableTensorView NextTokens::step_runs(std::span<const std::int64_t>, std::span<const std::int32_t>,
                                        std::span<const std::int64_t>) {
  refuse("generate", "this model does not read drafts");
}

void NextTokens::add(std::span<const std::int32_t>) { refuse("generate", "this model takes no more sequences"); }

namespace {

// Rows of a step over which drafts are spread: reading many costs as much as writing them.
constexpr std::int64_t kDraftedRows = 8;

// One sequence while it goes on.
class Going {
 public:
  Going(const GenerateOptions& options, const SequenceStart& start, std::vector<std::int32_t> prompt,
        std::int64_t sequence, std::int64_t parent)
      : sequence_(sequence), prompt_(std::move(prompt)), begin_{{parent, last_of(prompt_, start)}} {
    GenerateOptions own = options;
    own.max_length = start.max_length.value_or(options.max_length);
    own.min_length = start.min_length.value_or(options.min_length);
    most_ = own.max_length;
    search_ = options.beams > 1 ? make_beams(std::move(own), prompt_)
                                : make_chain(std::move(own), prompt_, start.stream, start.written);
  }

  std::int64_t sequence() const { return sequence_; }
  bool is_over() const { return !begin_ && next_.empty(); }
  void end() { next_ = {}; }
  std::span<const std::int32_t> written() const { return search_->written(); }
  std::vector<Hypothesis> hypotheses() { return search_->hypotheses(); }

  // Guesses up to `most` tokens behind the next one.
  void draft(std::int64_t most) {
    std::vector<std::int32_t> text = prompt_;
    text.insert(text.end(), written().begin(), written().end());
    most = std::min(most, most_ - std::ssize(written()) - 1);
    if (most > 0) guesses_ = draft_.guess(text, static_cast<std::size_t>(most));
  }

  // Adds its rows to a step: a run of each that the search goes on with.
  void add_rows(std::vector<std::int64_t>& parents, std::vector<std::int32_t>& tokens,
                std::vector<std::int64_t>& lengths) {
    const auto begin = std::ssize(tokens);
    for (const Search::Row& row : begin_ ? std::span<const Search::Row>(&*begin_, 1) : next_) {
      parents.push_back(begin_ ? row.parent : row_ + row.parent);
      tokens.push_back(row.token);
      lengths.push_back(1 + std::ssize(guesses_));
      tokens.insert(tokens.end(), guesses_.begin(), guesses_.end());
    }
    row_ = begin;
    rows_ = begin_ ? 1 : std::ssize(next_);
    right_ = 0;
    begin_.reset();
  }

  void advance(const MutableTensorView& logits) { next_ = search_->advance(logits.slice(0, row_, row_ + rows_)); }

  // Whether the next token is as guessed: its row is there then.
  bool has_guessed() {
    if (is_over() || right_ == guesses_.size() || guesses_[right_] != next_.front().token) {
      draft_.learn(guesses_.size(), right_);
      guesses_.clear();
      return false;
    }
    ++right_;
    ++row_;
    return true;
  }

 private:
  static std::int32_t last_of(Prompt prompt, const SequenceStart& start) {
    return start.written.tokens.empty() ? prompt.back() : start.written.tokens.back();
  }

  std::unique_ptr<Search> search_;
  std::int64_t sequence_;
  std::vector<std::int32_t> prompt_;
  std::optional<Search::Row> begin_;  // until the first step
  std::span<const Search::Row> next_;
  std::int64_t row_ = 0, rows_ = 1;  // of the last step; with guesses the row that the search has seen last
  std::int64_t most_ = 0;
  LookupDraft draft_;
  std::vector<std::int32_t> guesses_;
  std::size_t right_ = 0;
};

void check_sequence(Prompt prompt, const SequenceStart& start, std::int64_t sequence, const GenerateOptions& options,
                    std::int64_t vocab) {
  refuse_unless(!prompt.empty(), "generate", "prompt {} has no tokens", sequence);
  for (const std::int32_t token : prompt) check_token("prompt", token, vocab);
  const std::int64_t most = start.max_length.value_or(options.max_length);
  refuse_unless(std::ssize(start.written.tokens) < most, "generate",
                "sequence {} already has {} new tokens; max_length is {}", sequence, start.written.tokens.size(), most);
  refuse_unless(start.written.tokens.empty() || options.beams == 1, "generate",
                "continuing a text needs 1 beam, not {}", options.beams);
  for (const std::int32_t token : start.written.tokens) check_token("written", token, vocab);
}

using Coming = std::function<std::optional<ComingSequence>(bool idle)>;
using Ended = std::function<void(std::int64_t sequence, std::vector<Hypothesis> found)>;

// Steps all that go on until nothing more comes.
void run(NextTokens& model, const Coming& next, const Ended& ended, const GenerateOptions& options) {
  const std::int64_t most = options.rows == 0 ? std::numeric_limits<std::int64_t>::max()
                                              : std::max<std::int64_t>(1, options.rows / options.beams);
  std::vector<Going> going;
  std::vector<std::int64_t> parents, lengths;
  std::vector<std::int32_t> tokens;
  std::int64_t begun = 0;
  for (bool first = true;; first = false) {
    check_stop();
    for (; std::ssize(going) < most; ++begun) {
      std::optional<ComingSequence> one = next(going.empty());
      if (!one) break;
      going.emplace_back(options, one->start, std::move(one->prompt), begun, first ? begun : -1 - begun);
    }
    if (going.empty()) return;
    parents.clear();
    tokens.clear();
    lengths.clear();
    for (Going& one : going) one.add_rows(parents, tokens, lengths);
    const MutableTensorView logits =
        options.drafts == Drafts::none ? model.step(parents, tokens) : model.step_runs(parents, tokens, lengths);
    std::vector<Going*> advancing;
    for (Going& one : going) advancing.push_back(&one);
    while (!advancing.empty()) {
      parallel_for(std::ssize(advancing), options.threads,
                   [&](std::int64_t i, int) { advancing[static_cast<std::size_t>(i)]->advance(logits); });
      for (Going* one : advancing) {
        if (options.on_token && !options.on_token(one->sequence(), one->written())) one->end();
      }
      std::erase_if(advancing, [](Going* one) { return !one->has_guessed(); });
    }
    for (Going& one : going) {
      if (one.is_over()) ended(one.sequence(), one.hypotheses());
    }
    std::erase_if(going, [](const Going& one) { return one.is_over(); });
    if (options.drafts == Drafts::none) continue;
    const std::int64_t guessed = kDraftedRows / std::max<std::int64_t>(1, std::ssize(going)) - 1;
    for (Going& one : going) one.draft(guessed);
  }
}

}  // namespace

std::vector<std::vector<Hypothesis>> generate(NextTokens& model, std::int64_t batch, const GenerateOptions& options,
                                              std::span<const RandomStream> streams) {
  refuse_unless(batch >= 0, "generate", "batch is {}", batch);
  check_token("start", options.start, model.vocab());
  refuse_unless(streams.empty() || static_cast<std::int64_t>(streams.size()) == batch, "generate",
                "{} streams for a batch of {}", streams.size(), batch);
  const std::vector<std::vector<std::int32_t>> prompts(static_cast<std::size_t>(batch), {options.start});
  std::vector<SequenceStart> starts;
  for (const RandomStream& stream : streams) starts.push_back({.stream = stream});
  return generate(model, prompts, options, starts);
}

std::vector<std::vector<Hypothesis>> generate(NextTokens& model, std::span<const std::vector<std::int32_t>> prompts,
                                              const GenerateOptions& options, std::span<const SequenceStart> starts) {
  const StopScope stop(options.stop);
  check(options, model.vocab());
  const std::size_t batch = prompts.size();
  refuse_unless(starts.empty() || starts.size() == batch, "generate", "{} starts for a batch of {}", starts.size(),
                batch);
  const auto start_of = [&](std::size_t i) {
    return starts.empty() ? SequenceStart{.stream = {.line = i}} : starts[i];
  };
  for (std::size_t i = 0; i < batch; ++i) {
    check_sequence(prompts[i], start_of(i), static_cast<std::int64_t>(i), options, model.vocab());
  }
  std::vector<std::vector<Hypothesis>> results(batch);
  std::size_t begun = 0;
  const auto next = [&](bool) -> std::optional<ComingSequence> {
    if (begun == batch) return std::nullopt;
    const std::size_t i = begun++;
    return ComingSequence{prompts[i], start_of(i)};
  };
  run(
      model, next,
      [&](std::int64_t i, std::vector<Hypothesis> found) { results[static_cast<std::size_t>(i)] = std::move(found); },
      options);
  return results;
}

void generate_running(NextTokens& model, const Coming& next, const Ended& ended, const GenerateOptions& options) {
  const StopScope stop(options.stop);
  check(options, model.vocab());
  std::int64_t begun = 0;
  const auto next_checked = [&](bool idle) {
    std::optional<ComingSequence> one = next(idle);
    if (one) {
      check_sequence(one->prompt, one->start, begun++, options, model.vocab());
      model.add(one->prompt);
    }
    return one;
  };
  run(model, next_checked, ended, options);
}

}  // namespace qkv
