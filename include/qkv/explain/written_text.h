/// \file
/// A prompt and the continuation that a language model wrote, to be explained (explain_model.h): the run is one pass
/// over both, in which each token attends to itself and to those before it, and writes the next one.
///
///     Generator generator = Generator::load("smollm2");
///     std::vector<std::int32_t> ids = generator.tokenizer().encode("The cat sat").ids;
///     ids.push_back(next);
///     WrittenText text(generator.model(), &generator.tokenizer(), ids, {.prompt = 3});
///     std::cout << to_text(survey_heads(text));
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "qkv/api.h"
#include "qkv/explain/explainable.h"
#include "qkv/models/language_model.h"
#include "qkv/text/tokenizer.h"

namespace qkv {

struct WrittenTextOptions {
  std::size_t prompt = 1;       ///< so many of the ids were given, the others written
  bool explain_prompt = false;  ///< its tokens, too, but the first one, as if the model had written them
  LanguageModelOptions run{};
};

class QKV_API WrittenText : public Explainable {
 public:
  /// `ids`: the prompt and what was written, whoever wrote it; at least one of each. Model and tokenizer must outlive
  /// it; without a tokenizer, nullptr, tokens are called by their ids. std::invalid_argument for ids that do not fit,
  /// and if `left_out` names a head or key that does not exist.
  WrittenText(const LanguageModel& model, const Tokenizer* tokenizer, const std::vector<std::int32_t>& ids,
              const WrittenTextOptions& options, LeftOut left_out = {});

  /// One site, whose queries and keys are the sequence "read": all ids but the last one. Sequence "target": all but the
  /// first one; query i writes token i of it. Each token is a word of the alignment; words of the
  /// output, and guesses of layers, are those explained.
  const Attentions& attentions() const override { return attentions_; }
  void run(Observer& observer) const override { logits({}, &observer); }
  Outcome outcome(const LeftOut& more) const override;
  /// std::invalid_argument if the run leaves something out, which the backward pass does not.
  void run_backward(std::int64_t written, Observer& observer) const override;

 private:
  Tensor logits(const LeftOut& more, Observer* observer) const;
  const LanguageModel& model_;
  LanguageModelOptions options_;
  std::vector<std::int32_t> read_, output_;
  Attentions attentions_;
};

}  // namespace qkv
