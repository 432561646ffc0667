/// \file
/// The part of a context that answers a question. Reads the folders of transformers' ForQuestionAnswering with a
/// tokenizer.json. Source: Devlin et al., "BERT" (2018), section 4.2.
///
///     QuestionAnswerer answerer = QuestionAnswerer::load("folder");
///     answerer.answer("Who sat on the mat?", context)[0].text;
#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "qkv/api.h"
#include "qkv/pipelines/text_pipeline.h"

namespace qkv {

struct Answer {
  std::string text;  ///< of the context; empty: there is no answer
  double score = 0;  ///< product of the probabilities of its first and last token
  TextSpan span{};   ///< bytes of the context
};

/// Named as the arguments of transformers' question-answering pipeline, which version 5 dropped.
struct AnswerOptions {
  std::int64_t top_k = 1;                 ///< answers, if there are as many
  std::int64_t max_answer_len = 15;       ///< tokens
  std::size_t max_seq_len = 0;            ///< tokens of a sequence; 0: 384, or max_length() if that is less
  std::size_t doc_stride = 128;           ///< tokens that two parts of a long context share; at most half of a sequence
  bool handle_impossible_answer = false;  ///< allows no answer, with the score of the first token
  bool align_to_words = true;             ///< an answer takes the whole words that it begins and ends in
  int threads = 0;                        ///< 0: threads()
  std::stop_token stop{};
};

/// Safe for concurrent calls.
class QKV_API QuestionAnswerer : public TextPipeline {
 public:
  /// `folder` holds what TextModel::load reads, tokenizer.json, and perhaps sentence_bert_config.json and
  /// tokenizer_config.json (its model_max_length). FormatError as from there, and for a tokenizer that does not define
  /// pairs. `storage` as in weights.h.
  static QuestionAnswerer load(const std::string& folder, WeightStorage storage = WeightStorage::full);

  /// The best answers, in decreasing order. Question and context are read as one sequence, a long context in
  /// overlapping parts. In each part the logits of the context's tokens and of the first token become probabilities of
  /// where an answer begins and of where it ends; answers that differ in case alone are one, whose scores are added.
  /// std::invalid_argument for a question that leaves no room for the context, for top_k or max_answer_len below 1, and
  /// for a max_seq_len above the model's positions.
  std::vector<Answer> answer(const std::string& question, const std::string& context,
                             const AnswerOptions& options = {}) const;

  /// The parts in which answer() reads them, each with the question. Errors as from there.
  std::vector<PairWindow> windows(const std::string& question, const std::string& context,
                                  const AnswerOptions& options = {}) const;

 private:
  explicit QuestionAnswerer(TextPipeline opened) : TextPipeline(std::move(opened)) {}
};

}  // namespace qkv
