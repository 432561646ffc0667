/// \file
/// A text that a BERT-family model reads, to be explained (explain_model.h).
#pragma once

#include "qkv/api.h"
#include "qkv/explain/explainable.h"
#include "qkv/models/text_encoder.h"
#include "qkv/text/tokenizer.h"

namespace qkv {

class QKV_API EncodedText : public Explainable {
 public:
  /// The model must outlive it. std::invalid_argument if the text has no tokens, or too many for the model, or if
  /// `left_out` names a head or key that does not exist.
  EncodedText(const TextEncoder& model, const Encoding& text, const TextEncoderOptions& options = {},
              LeftOut left_out = {});

  const Attentions& attentions() const override { return attentions_; }
  void run(Observer& observer) const override { forward({}, &observer); }
  Outcome outcome(const LeftOut& more) const override { return {.outputs = forward(more, nullptr)}; }

 private:
  Tensor forward(const LeftOut& more, Observer* observer) const;

  const TextEncoder& model_;
  TokenBatch tokens_;
  TextEncoderOptions options_;
  Attentions attentions_;
};

}  // namespace qkv
