// Reranker: pairs of a query and each text through an encoder with one label.
#include "qkv/pipelines/reranker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/refuse.h"
#include "pipelines/classes.h"
#include "pipelines/text_batches.h"
#include "pipelines/texts/text_folder.h"
#include "qkv/error.h"
#include "qkv/stop.h"
#include "qkv/threads.h"

namespace qkv {

Reranker Reranker::load(const std::string& folder, WeightStorage storage) {
  const TextHeadConfig head = TextModel::check(folder, TextTask::sequence_class);
  if (head.outputs != 1) {
    throw FormatError(
        fmt::format("{}/config.json: id2label has {} names; a ranking model has 1", folder, head.outputs));
  }
  return Reranker(open_pairs(folder, TextTask::sequence_class, storage));
}

std::vector<float> Reranker::score(const std::string& query, std::span<const std::string> texts,
                                   const RankOptions& options) const {
  return score(
      texts.size(), [&](std::size_t i) { return std::pair<std::string_view, std::string_view>(query, texts[i]); },
      options);
}

std::vector<float> Reranker::score(std::span<const std::pair<std::string, std::string>> pairs,
                                   const RankOptions& options) const {
  return score(
      pairs.size(), [&](std::size_t i) { return std::pair<std::string_view, std::string_view>(pairs[i]); }, options);
}

std::vector<float> Reranker::score(
    std::size_t count, const std::function<std::pair<std::string_view, std::string_view>(std::size_t)>& pair,
    const RankOptions& options) const {
  const StopScope stop(options.stop);
  refuse_unless(options.cut.empty() || options.cut.size() == count, "rank",
                "{} pairs need as many elements in cut, got {}", count, options.cut.size());
  std::vector<Encoding> pairs(count);
  parallel_for(static_cast<std::int64_t>(count), options.threads, [&](std::int64_t i, int) {
    const auto at = static_cast<std::size_t>(i);
    const auto [query, text] = pair(at);
    pairs[at] = tokenizer().encode_pair(query, text, max_length());
    if (options.cut.empty()) return;
    const std::size_t whole =
        pairs[at].ids.size() < max_length() ? pairs[at].ids.size() : tokenizer().encode_pair(query, text).ids.size();
    options.cut[at] = static_cast<std::int64_t>(whole - pairs[at].ids.size());
  });
  const bool is_sigmoid =
      options.score == RankScore::of_folder ? ranks_by_sigmoid() : options.score == RankScore::sigmoid;
  std::vector<float> scores(count);
  for_each_text_batch(pairs, options.threads, [&](const TokenBatch& batch, std::size_t first) {
    if (batch.batch() == 0) return;
    const Tensor logits = model().logits(batch, {.threads = options.threads});
    std::transform(logits.data<float>(), logits.data<float>() + batch.batch(), scores.begin() + first,
                   [&](float x) { return is_sigmoid ? static_cast<float>(sigmoid(x)) : x; });
  });
  return scores;
}

std::vector<Ranked> Reranker::rank(const std::string& query, std::span<const std::string> texts,
                                   const RankOptions& options) const {
  const std::vector<float> scores = score(query, texts, options);
  std::vector<Ranked> ranked;
  for (std::size_t i = 0; i < scores.size(); ++i) ranked.push_back({i, scores[i]});
  std::ranges::stable_sort(ranked, [](const Ranked& a, const Ranked& b) {
    return a.score > b.score || (!std::isnan(a.score) && std::isnan(b.score));
  });
  return ranked;
}

}  // namespace qkv
