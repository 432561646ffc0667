/// \file
/// A text and what the head of an encoder says of it, to be explained (token_measures.h): the logit or probability of a
/// class, the score of a pair, the word at a mask, the label of a token, the answer in a context.
///
///     TextClassifier classifier = TextClassifier::load("folder");
///     std::cout << words_to_text(measure_token(JudgedText(classifier, {"I like it."}), 0));
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/explain/explainable.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/question_answerer.h"
#include "qkv/pipelines/reranker.h"
#include "qkv/pipelines/tagger.h"
#include "qkv/pipelines/text_classifier.h"

namespace qkv {

/// The model must outlive it. std::invalid_argument where the call of the model itself would refuse the text.
class QKV_API JudgedText : public Explainable {
 public:
  /// One output, the log-probability of this label, of a regression its number; empty: of the most probable label.
  /// std::invalid_argument if the model has no such label. A text of more than max_length() tokens loses its end.
  JudgedText(const TextClassifier& model, const TextOrPair& text, const std::string& label = {},
             std::stop_token stop = {});
  /// One output, the logit of the pair, which is cut as the model cuts it.
  JudgedText(const Reranker& model, const std::string& query, const std::string& text, std::stop_token stop = {});
  /// An output for each masked word, the log-probability there of this word, as fill() calls it; empty: of the most
  /// probable one. std::invalid_argument if the vocabulary lacks it.
  JudgedText(const FillMask& model, const std::string& text, const std::string& word = {}, std::stop_token stop = {});
  /// An output for each token whose most probable label is not "O", the log-probability of that label; there may be
  /// none. A text of more than max_length() tokens loses its end.
  JudgedText(const Tagger& model, const std::string& text, std::stop_token stop = {});
  /// One output, of the best answer: the sum of the log-probabilities of its first and last token, in the part of the
  /// context where it is most probable. std::invalid_argument if the context has no token.
  JudgedText(const QuestionAnswerer& model, const std::string& question, const std::string& context,
             std::stop_token stop = {});

  /// The same outputs of a run that leaves these out, which no gradients are of. std::invalid_argument if they are not
  /// there.
  JudgedText without(LeftOut left_out) const;

  /// The encoder's attentions, and the outputs.
  const Attentions& attentions() const override { return attentions_; }
  /// The encoder's.
  void run(Observer& observer) const override;
  Outcome outcome(const LeftOut& more) const override;
  /// std::invalid_argument where something is left out.
  void run_backward(std::int64_t output, Observer& observer) const override;

 private:
  enum class Form { softmax, sigmoid, logit, answer };
  struct Output {
    std::string name;
    std::int64_t row = 0, column = 0;  // of the logits; of an answer its first and last row
  };
  struct Given;  // what a model reads, in the source file
  JudgedText(const TextPipeline& model, Given given);
  Tensor logits(const LeftOut& more) const;

  const TextModel& model_;
  Attentions attentions_;
  TokenBatch tokens_;
  std::stop_token stop_;
  Form form_;
  std::vector<std::int64_t> rows_;  // tokens whose logits count
  std::vector<Output> outputs_;
};

}  // namespace qkv
