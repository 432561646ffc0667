// Reranker: pairs of a query and each text through an encoder with one label.
#include "qkv/pipelines/reranker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pipelines/classes.h"
#include "pipelines/pipeline_folder.h"
#include "pipelines/text_batches.h"
#include "qkv/error.h"
#include "qkv/stop.h"
#include "qkv/threads.h"

namespace qkv {

Reranker::Reranker(Tokenizer tokenizer, TextModel model, std::size_t max_length, bool sigmoid)
    : tokenizer_(std::move(tokenizer)), model_(std::move(model)), max_length_(max_length), sigmoid_(sigmoid) {}

Reranker Reranker::load(const std::string& folder, WeightStorage storage) {
  const TextHeadConfig head = TextModel::check(folder, TextTask::sequence_class);
  if (head.outputs != 1) {
    throw FormatError(
        fmt::format("{}/config.json: id2label has {} names; a model that ranks has 1", folder, head.outputs));
  }
  const RankFolder files = read_rank_folder(folder);
  TextModel model = TextModel::load(folder, TextTask::sequence_class, storage);
  const TextEncoderConfig& config = model.encoder().config();
  const std::size_t length = tokens_read(files.max_length, config.positions);
  const std::string path = folder + "/tokenizer.json";
  Tokenizer tokenizer = Tokenizer::load(path, config.vocab);
  try {
    tokenizer.encode_pair("", "", length);
  } catch (const std::invalid_argument& error) {
    throw FormatError(fmt::format("{}: {}", path, error.what()));
  }
  return Reranker(std::move(tokenizer), std::move(model), length, files.sigmoid);
}

std::vector<float> Reranker::score(const std::string& query, std::span<const std::string> texts,
                                   const RankOptions& options) const {
  const StopScope stop(options.stop);
  std::vector<Encoding> pairs(texts.size());
  parallel_for(static_cast<std::int64_t>(texts.size()), options.threads, [&](std::int64_t i, int) {
    const auto at = static_cast<std::size_t>(i);
    pairs[at] = tokenizer_.encode_pair(query, texts[at], max_length_);
  });
  std::vector<float> scores(texts.size());
  for_each_text_batch(pairs, options.threads, [&](const TokenBatch& batch, std::size_t first) {
    if (batch.batch() == 0) return;
    const Tensor logits = model_.logits(batch, {.threads = options.threads});
    std::transform(logits.data<float>(), logits.data<float>() + batch.batch(), scores.begin() + first,
                   [&](float x) { return sigmoid_ ? static_cast<float>(sigmoid(x)) : x; });
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
