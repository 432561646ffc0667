// Adds up the weights of heads over the tokens of words.
#include "explain/word_alignment.h"

#include "explain/require.h"

namespace qkv::inline explaining {

WordAlignment::WordAlignment(const Alignment& alignment)
    : alignment_(alignment),
      sums_(Tensor::zeros({std::ssize(alignment.target.words), std::ssize(alignment.source.words)}, Dtype::f64)) {
  for (const TokenWords* own : {&alignment.source, &alignment.target}) {
    for (const std::int64_t word : own->word_of) {
      require(word < std::ssize(own->words), "a token is part of word {}; there are {}", word, own->words.size());
    }
  }
}

void WordAlignment::add(const TensorView& weights) {
  const std::vector<std::int64_t>&source = alignment_.source.word_of, &target = alignment_.target.word_of;
  require(weights.size(0) == std::ssize(target) && weights.size(2) == std::ssize(source),
          "weights {} must align {} tokens with {}", to_string(weights.shape()), target.size(), source.size());
  const Tensor exact = convert(weights, Dtype::f64);
  const double* weight = exact.data<double>();
  for (const std::int64_t word : target) {
    for (std::int64_t head = 0; head < weights.size(1); ++head, weight += weights.size(2)) {
      if (word < 0) continue;
      double* row = sums_.data<double>() + word * sums_.size(1);
      for (std::size_t j = 0; j < source.size(); ++j) {
        if (source[j] >= 0) row[source[j]] += weight[j];
      }
    }
  }
}

Tensor WordAlignment::weights() const {
  Tensor shares = sums_;
  for (std::int64_t i = 0; i < shares.size(0); ++i) {
    double* row = shares.data<double>() + i * shares.size(1);
    double sum = 0;
    for (std::int64_t j = 0; j < shares.size(1); ++j) sum += row[j];
    for (std::int64_t j = 0; j < shares.size(1) && sum > 0; ++j) row[j] /= sum;
  }
  return shares;
}

}  // namespace qkv::inline explaining
