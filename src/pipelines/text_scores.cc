// Generator::score: windows of texts, several in one pass, and the rows of logits that say how probable each token was.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/counted.h"
#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "models/language/text_windows.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/pipelines/generator.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

// Tokens of one pass, and rows of logits at once: a vocabulary is wide.
constexpr std::int64_t kPassTokens = 1 << 13, kLogitRows = 64;

TokenScore score_of(std::span<const float> logits, std::int32_t id) {
  const float own = logits[static_cast<std::size_t>(id)];
  const double sum = log_sum_exp(logits);
  refuse_unless(std::isfinite(sum) && std::isfinite(own), "score", "the model's logits are not finite");
  const auto before = [&](const float& logit) { return logit > own || (logit == own && &logit - logits.data() < id); };
  return {static_cast<double>(own) - sum, 1 + std::count_if(logits.begin(), logits.end(), before)};
}

// The tokens of these windows that count, appended to the tokens of their texts.
void score_windows(const LanguageModel& model, std::span<const TextWindow> windows, int threads,
                   std::vector<ScoredText>& texts) {
  std::vector<std::vector<std::int32_t>> sequences;
  for (const TextWindow& window : windows) {
    const auto ids = texts[window.text].ids.begin();
    sequences.emplace_back(ids + window.begin, ids + window.end);
  }
  const Tensor hidden = model.hidden(sequences, {.threads = threads});
  std::int64_t first = 0;  // row of a window
  for (const TextWindow& window : windows) {
    ScoredText& text = texts[window.text];
    for (std::int64_t at = window.counted; at < window.end; at += kLogitRows) {
      check_stop();
      const std::int64_t rows = std::min(kLogitRows, window.end - at), row = first + at - window.begin - 1;
      const Tensor logits = model.project(hidden.view().slice(0, row, row + rows), threads);
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::span<const float> of_token(logits.data<float>() + i * logits.size(1),
                                              static_cast<std::size_t>(logits.size(1)));
        text.tokens.push_back(score_of(of_token, text.ids[static_cast<std::size_t>(at + i)]));
      }
    }
    first += window.end - window.begin;
  }
}

}  // namespace

std::vector<ScoredText> Generator::score(std::span<const std::string> texts, const TextScoreOptions& options) const {
  const StopScope stop(options.stop);
  std::vector<ScoredText> results;
  std::vector<std::int64_t> lengths;
  for (const std::string& text : texts) {
    Encoding encoding = tokenizer().encode(text);
    refuse_unless(encoding.ids.size() > 1, "score", "text {} has {}; scoring needs two", results.size() + 1,
                  counted(std::ssize(encoding.ids), "token"));
    const std::size_t bytes = text.size() - encoding.offsets.front().end;
    refuse_unless(bytes > 0, "score", "text {} has no byte after its first token", results.size() + 1);
    lengths.push_back(std::ssize(encoding.ids));
    results.push_back({.ids = std::move(encoding.ids), .bytes = static_cast<std::int64_t>(bytes)});
  }
  const std::int64_t positions = model_.config().positions;
  const std::vector<TextWindow> windows = text_windows(lengths, positions, scoring_stride(positions));
  for (std::size_t begin = 0, end = 0; begin < windows.size(); begin = end) {
    std::int64_t tokens = 0;
    do {
      tokens += windows[end].end - windows[end].begin;
      ++end;
    } while (end < windows.size() && tokens + windows[end].end - windows[end].begin <= kPassTokens);
    score_windows(model_, std::span(windows).subspan(begin, end - begin), options.threads, results);
  }
  for (ScoredText& result : results) {
    for (const TokenScore& token : result.tokens) result.log_probability += token.log_probability;
    result.bits_per_byte = -result.log_probability / std::numbers::ln2 / static_cast<double>(result.bytes);
    result.perplexity = exp(-result.log_probability / static_cast<double>(result.tokens.size()));
  }
  return results;
}

}  // namespace qkv
