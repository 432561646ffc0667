// Hides source words one after the other, and adds up the weights of heads over the tokens of words.
#include "explain/measure/word_alignment.h"

#include <algorithm>
#include <utility>

#include "core/share.h"
#include "explain/observe/require.h"

namespace qkv::inline explaining {
namespace {

// [output words, source words].
Tensor zeros_of(const Alignment& alignment) {
  for (const TokenWords* own : {&alignment.source, &alignment.output}) {
    for (const std::int64_t word : own->word_of) {
      require(word < std::ssize(own->words), "a token is part of word {}; there are {}", word, own->words.size());
    }
  }
  return Tensor::zeros({std::ssize(alignment.output.words), std::ssize(alignment.source.words)}, Dtype::f64);
}

// Each row divided by its sum, unless that is 0.
Tensor shares_of(Tensor sums) {
  for (std::int64_t i = 0; i < sums.size(0); ++i) {
    double* row = sums.data<double>() + i * sums.size(1);
    double sum = 0;
    for (std::int64_t j = 0; j < sums.size(1); ++j) sum += row[j];
    for (std::int64_t j = 0; j < sums.size(1) && sum > 0; ++j) row[j] /= sum;
  }
  return sums;
}

}  // namespace

Tensor align_words(const Explainable& input) {
  const Alignment& alignment = *input.attentions().alignment;
  Tensor losses = zeros_of(alignment);
  const std::vector<std::int64_t>&source = alignment.source.word_of, &output = alignment.output.word_of;
  const std::vector<double> whole = input.outcome({}).log_probabilities;
  require(whole.size() == output.size(), "{} log-probabilities are of {} tokens", whole.size(), output.size());
  ShareTurns turns(losses.size(1));
  for (std::int64_t word = 0; word < losses.size(1); ++word, turns.next()) {
    LeftOut hidden;
    for (std::size_t j = 0; j < source.size(); ++j) {
      if (source[j] == word) hidden.keys.push_back({static_cast<std::int64_t>(j), alignment.site});
    }
    const std::vector<double> without = input.outcome(hidden).log_probabilities;
    for (std::size_t t = 0; t < output.size(); ++t) {
      if (output[t] >= 0) losses.data<double>()[output[t] * losses.size(1) + word] += whole[t] - without[t];
    }
  }
  for (std::int64_t i = 0; i < losses.element_count(); ++i) {
    losses.data<double>()[i] = std::max(losses.data<double>()[i], 0.0);
  }
  return shares_of(std::move(losses));
}

WordAlignment::WordAlignment(const Alignment& alignment) : alignment_(alignment), sums_(zeros_of(alignment)) {}

void WordAlignment::add(const TensorView& weights) {
  const std::vector<std::int64_t>&source = alignment_.source.word_of, &output = alignment_.output.word_of;
  require(weights.size(0) == std::ssize(output) && weights.size(2) == std::ssize(source),
          "weights {} must align {} tokens with {}", to_string(weights.shape()), output.size(), source.size());
  const Tensor exact = convert(weights, Dtype::f64);
  const double* weight = exact.data<double>();
  for (const std::int64_t word : output) {
    for (std::int64_t head = 0; head < weights.size(1); ++head, weight += weights.size(2)) {
      if (word < 0) continue;
      double* row = sums_.data<double>() + word * sums_.size(1);
      for (std::size_t j = 0; j < source.size(); ++j) {
        if (source[j] >= 0) row[source[j]] += weight[j];
      }
    }
  }
}

Tensor WordAlignment::weights() const { return shares_of(sums_); }

}  // namespace qkv::inline explaining
