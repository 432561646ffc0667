// A text that a BERT-family model reads, to be explained (explain_model.h).
#pragma once

#include "qkv/explain/explainable.h"
#include "qkv/models/bert.h"
#include "qkv/text/tokenizer.h"

namespace qkv {

class EncodedText : public Explainable {
 public:
  // The model must outlive it. std::invalid_argument if the text has no tokens, or too many for the model.
  EncodedText(const Bert& model, const Encoding& text, const BertOptions& options = {});

  const Attentions& attentions() const override { return attentions_; }
  void run(Observer& observer) const override { model_.forward(tokens_, options_, &observer); }

 private:
  const Bert& model_;
  TokenBatch tokens_;
  BertOptions options_;
  Attentions attentions_;
};

}  // namespace qkv
