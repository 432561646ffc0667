/// \file
/// How well texts answer a query: a cross-encoder, which reads the query and a text as one sequence. Reads the folders
/// of sentence-transformers' CrossEncoder with one label. Source: Nogueira, Cho, "Passage Re-ranking with BERT" (2019).
///
///     Reranker reranker = Reranker::load("folder");
///     for (const Ranked& found : reranker.rank("Who sat on the mat?", texts)) ...   // best first
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/api.h"
#include "qkv/pipelines/text_pipeline.h"

namespace qkv {

/// A text by its place among those given.
struct Ranked {
  std::size_t index = 0;
  float score = 0;
};

/// How a logit becomes a score.
enum class RankScore { of_folder, logit, sigmoid };

/// Options of one call.
struct RankOptions {
  RankScore score = RankScore::of_folder;
  std::span<std::int64_t> cut{};  ///< optional output, one per pair: how many of its tokens exceed max_length()
  int threads = 0;                ///< 0: threads()
  std::stop_token stop{};
};

/// Safe for concurrent calls.
class QKV_API Reranker : public TextPipeline {
 public:
  /// `folder` holds what TextModel::load reads, tokenizer.json, and perhaps modules.json, sentence_bert_config.json,
  /// tokenizer_config.json (its model_max_length) and config_sentence_transformers.json (its activation_fn: scores are
  /// the sigmoid of the logit unless that or config.json names Identity). FormatError as from there, for a head with
  /// more than one label, and for a tokenizer that does not define pairs.
  static Reranker load(const std::string& folder, WeightStorage storage = WeightStorage::full);

  /// The score of each text, the same bits for any other texts and any number of threads. In a pair of more than
  /// max_length() tokens the longer text is truncated first. Texts that are not UTF-8 are read as tokenizer.h says.
  /// std::invalid_argument if options.cut is given with another number of elements than there are pairs.
  std::vector<float> score(const std::string& query, std::span<const std::string> texts,
                           const RankOptions& options = {}) const;

  /// The same for pairs of a query and a text.
  std::vector<float> score(std::span<const std::pair<std::string, std::string>> pairs,
                           const RankOptions& options = {}) const;

  /// The same, the highest score first; ties in the order of the texts, NaN last.
  std::vector<Ranked> rank(const std::string& query, std::span<const std::string> texts,
                           const RankOptions& options = {}) const;

 private:
  explicit Reranker(TextPipeline opened) : TextPipeline(std::move(opened)) {}
  std::vector<float> score(std::size_t count,
                           const std::function<std::pair<std::string_view, std::string_view>(std::size_t)>& pair,
                           const RankOptions& options) const;
};

}  // namespace qkv
