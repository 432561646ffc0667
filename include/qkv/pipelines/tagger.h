/// \file
/// The words of a text with their labels: names, places, parts of speech. Reads the folders of transformers'
/// ForTokenClassification with a tokenizer.json.
///
///     Tagger tagger = Tagger::load("folder");
///     for (const TaggedSpan& found : tagger.tag(texts)[0]) ...   // "Berlin": LOC
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "qkv/api.h"
#include "qkv/pipelines/text_pipeline.h"

namespace qkv {

/// How tokens become spans: the aggregation strategies of transformers' token-classification pipeline. All but `none`
/// then join neighbours of one label, whose B- and I- go, until one begins with B-.
enum class Aggregation {
  none,     ///< each token
  simple,   ///< each token has its most probable label
  first,    ///< a word has the label of its first token
  average,  ///< a word has the label of the highest mean probability over its tokens
  max,      ///< a word has the label of its most confident token
};

struct TaggedSpan {
  std::string label;
  double score = 0;  ///< probability of the label: softmax; for joined tokens the mean
  std::string word;  ///< as the tokenizer decodes it; the text itself has it at `span`
  TextSpan span{};   ///< bytes of the text
};

struct TagOptions {
  Aggregation aggregation = Aggregation::simple;
  std::span<std::int64_t> cut{};  ///< optional output, one per text: how many of its tokens exceed max_length()
  int threads = 0;                ///< 0: threads()
  std::stop_token stop{};
};

/// Safe for concurrent calls.
class QKV_API Tagger : public TextPipeline {
 public:
  /// `folder` holds what TextModel::load reads, tokenizer.json, and perhaps sentence_bert_config.json and
  /// tokenizer_config.json (its model_max_length). FormatError as from there. `storage` as in weights.h.
  static Tagger load(const std::string& folder, WeightStorage storage = WeightStorage::full);

  /// The labelled spans of each text, in order, the same for any other texts and any number of threads; without the
  /// label "O". A word is a token with those after it that continue it: by the tokenizer's mark if it has one, else by
  /// the lack of a space between them. A text of more than max_length() tokens is truncated; options.cut counts the
  /// lost tokens. std::invalid_argument if options.cut is given with another number of elements than there are texts.
  std::vector<std::vector<TaggedSpan>> tag(std::span<const std::string> texts, const TagOptions& options = {}) const;

 private:
  explicit Tagger(TextPipeline opened) : TextPipeline(std::move(opened)) {}
};

}  // namespace qkv
