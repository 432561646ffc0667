/// \file
/// A text that an encoder-decoder model translates, and its translation, to be explained (explain_model.h): the run is
/// that over the source and the translation that the model wrote.
///
///     Translator translator = Translator::load("models/en-es");
///     std::cout << to_text(survey_heads(TranslatedText(translator, "You are welcome")));
#pragma once

#include <stop_token>
#include <string>

#include "qkv/api.h"
#include "qkv/explain/explainable.h"
#include "qkv/pipelines/translator.h"

namespace qkv {

class QKV_API TranslatedText : public Explainable {
 public:
  /// Translates the text, whole. The translator must outlive it. Errors as translate()'s; std::invalid_argument for a
  /// text without tokens, a model without attention, and if `left_out` names a head or key that does not exist. Only
  /// the run leaves it out, not the search.
  TranslatedText(const Translator& translator, const std::string& text, const TranslateOptions& options = {},
                 LeftOut left_out = {});

  /// The same with this translation, whoever wrote it: of `translation` text and ids (with the end) are used.
  TranslatedText(const Translator& translator, const std::string& text, const Translation& translation,
                 LeftOut left_out = {}, std::stop_token stop = {});

  /// Sites: encoder, decoder and encoder_decoder, those that the model has. Sequences: source; "target", which the
  /// decoder writes; and read: start, then all of it but the last. Queries and keys of the decoder are the tokens
  /// read; a query of encoder_decoder is the token written.
  const Attentions& attentions() const override { return attentions_; }
  void run(Observer& observer) const override { logits({}, &observer); }
  Outcome outcome(const LeftOut& more) const override;
  /// std::invalid_argument if the run leaves something out, which the backward pass does not.
  void run_backward(std::int64_t written, Observer& observer) const override;

 private:
  Tensor logits(const LeftOut& more, Observer* observer) const;

  const Translator& translator_;
  EncoderDecoderOptions options_;
  PairBatch batch_;
  Attentions attentions_;
};

}  // namespace qkv
