// generate(): checks the options and steps all sequences of a batch together.
#include "qkv/decode/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/refuse.h"
#include "core/stop.h"
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

// Whatever would complete `size` tokens that were there before.
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

std::vector<std::vector<Hypothesis>> generate(NextTokens& model, std::int64_t batch, const GenerateOptions& options,
                                              std::span<const RandomStream> streams) {
  refuse_unless(batch >= 0, "generate", "batch is {}", batch);
  check_token("start", options.start, model.vocab());
  const std::vector<std::vector<std::int32_t>> prompts(static_cast<std::size_t>(batch), {options.start});
  return generate(model, prompts, options, streams);
}

std::vector<std::vector<Hypothesis>> generate(NextTokens& model, std::span<const std::vector<std::int32_t>> prompts,
                                              const GenerateOptions& options, std::span<const RandomStream> streams) {
  const StopScope stop(options.stop);
  check(options, model.vocab());
  const std::int64_t batch = std::ssize(prompts);
  refuse_unless(streams.empty() || static_cast<std::int64_t>(streams.size()) == batch, "generate",
                "{} streams for a batch of {}", streams.size(), batch);

  struct Going {
    std::unique_ptr<Search> search;
    std::int64_t sequence;
    std::int64_t first_row, rows;  // of the last step
    std::span<const Search::Row> next;
  };
  std::vector<Going> going;
  std::vector<std::int64_t> parents;
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < batch; ++i) {
    const RandomStream stream =
        streams.empty() ? RandomStream{static_cast<std::uint64_t>(i)} : streams[static_cast<std::size_t>(i)];
    const Prompt prompt = prompts[static_cast<std::size_t>(i)];
    refuse_unless(!prompt.empty(), "generate", "prompt {} has no tokens", i);
    for (const std::int32_t token : prompt) check_token("prompt", token, model.vocab());
    going.push_back(
        {options.beams > 1 ? make_beams(options, prompt) : make_chain(options, prompt, stream), i, i, 1, {}});
    parents.push_back(i);
    tokens.push_back(prompt.back());
  }

  std::vector<std::vector<Hypothesis>> results(static_cast<std::size_t>(batch));
  while (!going.empty()) {
    check_stop();
    const MutableTensorView logits = model.step(parents, tokens);
    parallel_for(static_cast<std::int64_t>(going.size()), options.threads, [&](std::int64_t i, int) {
      Going& one = going[static_cast<std::size_t>(i)];
      one.next = one.search->advance(logits.slice(0, one.first_row, one.first_row + one.rows));
    });
    parents.clear();
    tokens.clear();
    for (Going& one : going) {
      if (options.on_token && !options.on_token(one.sequence, one.search->written())) one.next = {};
      if (one.next.empty()) results[static_cast<std::size_t>(one.sequence)] = one.search->hypotheses();
      const auto first = static_cast<std::int64_t>(parents.size());
      for (const Search::Row& row : one.next) {
        parents.push_back(one.first_row + row.parent);
        tokens.push_back(row.token);
      }
      one.first_row = first;
      one.rows = static_cast<std::int64_t>(one.next.size());
    }
    std::erase_if(going, [](const Going& one) { return one.rows == 0; });
  }
  return results;
}

}  // namespace qkv
