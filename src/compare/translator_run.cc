// Trains a translator and counts what of its answers is right, written token by token.
#include "compare/translator_run.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "compare/catalog.h"
#include "compare/model_size.h"
#include "compare/pair_tasks.h"
#include "compare/run_seeds.h"
#include "qkv/models/generate.h"

namespace qkv::comparison {
namespace {

constexpr std::int64_t kPairExamples = 1 << 15, kPairsToValidate = 64;

// The most probable token at each step, without the end.
std::vector<std::vector<std::int32_t>> answers(const TranslatorModel& model, const std::vector<TokenPair>& pairs) {
  std::vector<std::uint32_t> all(pairs.size());
  std::iota(all.begin(), all.end(), 0u);
  const PairBatch batch = PairExamples(pairs).collect(all);
  const EncoderDecoderTokens tokens = model.model().tokens();
  const std::unique_ptr<NextTokens> next = model.model().targets(batch.source, batch.source_offsets);
  std::vector<std::vector<std::int32_t>> written;
  for (auto& best : generate(*next, std::ssize(pairs),
                             {.start = tokens.start, .ends = {tokens.end}, .max_length = tokens.positions - 1})) {
    written.push_back(std::move(best[0].tokens));
    if (!written.back().empty() && written.back().back() == tokens.end) written.back().pop_back();
  }
  return written;
}

// Of all symbols those that are in their place.
RunResult run_reversal(const Run& run, const RunPlace& place) {
  const std::int64_t longest = reversal_extents().back();
  const EncoderDecoderTokens tokens = reversal_tokens(longest + 2);
  TranslatorModel model(sized(translator_kind(run.model), tokens, catalog_task(run.task).parameters), run.seed);
  const ReversalExamples train(seed_for(Use::training, run.seed), kPairExamples);
  const ReversalExamples valid(seed_for(Use::validation, run.seed), kPairsToValidate);
  RunResult result{.parameters = parameter_count(model), .asked = std::numeric_limits<std::int64_t>::max()};
  result.norms = train_run<PairBatch>(run, place, model, {.train = train, .valid = valid});
  for (const std::int64_t extent : reversal_extents()) {
    std::vector<TokenPair> pairs;
    for (std::int64_t i = 0; i < run.examples; ++i) {
      pairs.push_back(
          draw_reversal(extent, seed_for(Use::measuring, run.seed), static_cast<std::uint64_t>(extent << 32 | i)));
    }
    const auto written = answers(model, pairs);
    std::int64_t right = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      for (std::size_t t = 0; t < std::min(written[i].size(), static_cast<std::size_t>(extent)); ++t) {
        right += written[i][t] == pairs[i].target[t];
      }
    }
    const std::int64_t asked = run.examples * extent;
    result.accuracy[extent] = static_cast<double>(right) / static_cast<double>(asked);
    result.asked = std::min(result.asked, asked);
  }
  return result;
}

// Of all phrases those that are right as a whole.
RunResult run_phrases(const Run& run, const RunPlace& place, const std::string& phrases) {
  const PhraseBook book = read_phrase_book(phrases);
  TranslatorModel model(sized(translator_kind(run.model), book.tokens, catalog_task(run.task).parameters), run.seed);
  const PairExamples train(book.pairs);
  const PairExamples valid(std::span(book.pairs).first(std::min<std::size_t>(64, book.pairs.size())));
  RunResult result{.parameters = parameter_count(model), .asked = std::numeric_limits<std::int64_t>::max()};
  result.norms = train_run<PairBatch>(run, place, model, {.train = train, .valid = valid});
  for (const auto& [words, numbers] : book.by_words) {
    std::vector<TokenPair> pairs;
    for (const std::size_t number : numbers) pairs.push_back(book.pairs[number]);
    const auto written = answers(model, pairs);
    std::int64_t right = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      right += std::equal(written[i].begin(), written[i].end(), pairs[i].target.begin(), pairs[i].target.end() - 1);
    }
    result.accuracy[words] = static_cast<double>(right) / static_cast<double>(pairs.size());
    result.asked = std::min(result.asked, std::ssize(pairs));
  }
  return result;
}

}  // namespace

RunResult run_translator(const Run& run, const RunPlace& place, const std::string& phrases) {
  return run.task == "phrases" ? run_phrases(run, place, phrases) : run_reversal(run, place);
}

}  // namespace qkv::comparison
