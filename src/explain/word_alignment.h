// Which source words a written word was made from, by the mean of all heads of an attention.
#pragma once

#include "qkv/explain/explainable.h"
#include "qkv/tensor.h"

namespace qkv::inline explaining {

// Tokens that are part of no word are left out, and those of a word are added up. Of several ways to weigh the heads this
// one had the least error on 20 pairs aligned by hand (docs/lab/alignment.md).
class WordAlignment {
 public:
  // std::invalid_argument if a token is part of a word that is not there.
  explicit WordAlignment(const Alignment& alignment);

  // Weights of all heads of a layer, [target tokens, heads, source tokens].
  void add(const TensorView& weights);
  // [target words, source words], f64: a row sums to 1, or is 0 if nothing was seen of its word.
  Tensor weights() const;

 private:
  const Alignment& alignment_;
  Tensor sums_;
};

}  // namespace qkv::inline explaining
