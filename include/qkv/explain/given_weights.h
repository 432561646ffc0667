/// \file
/// Weights of attention that another program computed, to be shown like a model's (explain_model.h).
///
///     GivenWeights given({{.name = "tokens", .tokens = {"the", "cat"}}}, {{.name = "attention", .layers = weights}});
///     report.add(survey_heads(given, {.maps = HeadMapsOptions{}}));
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/explain/explainable.h"
#include "qkv/tensor.h"

namespace qkv {

struct GivenAttention {
  std::string name;         ///< as an AttentionSite has it
  std::string title{};      ///< empty where there is one attention alone
  std::string caption{};    // "tokens attend to tokens"
  std::size_t queries = 0;  ///< a sequence, by its number
  std::size_t keys = 0;
  std::vector<Tensor> layers;  ///< each [heads, queries, keys], f32 or f64, rows of the same numbers of heads
  bool is_part = false;        ///< of the keys of a query alone: its rows need not sum to 1
};

class QKV_API GivenWeights : public Explainable {
 public:
  /// Sequences need a name and tokens. Rows that do not sum to 1 within 0.02, as far as bf16 rounds, are a remark of
  /// the attentions. std::invalid_argument, naming the layer, for weights that do not fit the tokens, are not numbers
  /// or are below 0.
  GivenWeights(std::vector<AttentionSequence> sequences, std::vector<GivenAttention> given);

  const Attentions& attentions() const override { return attentions_; }
  /// Weights alone.
  void run(Observer& observer) const override;

 private:
  std::vector<GivenAttention> given_;
  Attentions attentions_;
};

}  // namespace qkv
