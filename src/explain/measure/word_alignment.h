// Which source words a written word was made from: by what it loses without one, and by the weights of an attention.
#pragma once

#include "qkv/explain/explainable.h"
#include "qkv/tensor.h"

namespace qkv::inline explaining {

// By how much the log-probability of each written word falls when a source word is hidden from the attention between
// the two: [output words, source words], f64, what is below 0 as 0; a row sums to 1, or is 0. One run for each source
// word. Of the ways that were tried this one had the least error on 20 pairs aligned by hand (docs/lab/alignment.md).
// std::invalid_argument as outcome()'s, and if a token is part of a word that is not there.
Tensor align_words(const Explainable& input);

// Alignment by the weights of all heads. Tokens that are part of no word are left out, tokens of one word are added up.
class WordAlignment {
 public:
  // std::invalid_argument if a token is part of a word that is not there.
  explicit WordAlignment(const Alignment& alignment);

  // Weights of all heads of a layer, [output tokens, heads, source tokens].
  void add(const TensorView& weights);
  // [output words, source words], f64: a row sums to 1, or is 0 if nothing was seen of its word.
  Tensor weights() const;

 private:
  const Alignment& alignment_;
  Tensor sums_;
};

}  // namespace qkv::inline explaining
