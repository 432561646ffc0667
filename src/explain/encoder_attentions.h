// What explain knows of a model that is an encoder alone: one attention, whose queries and keys are its tokens.
#pragma once

#include <utility>

#include "explain/left_out_masks.h"

namespace qkv::inline explaining {

// `config`: with layers, heads and model_dim. `bias`: of every layer. Errors as check_left_out().
template <class Config>
Attentions encoder_attentions(const Config& config, AttentionSequence tokens, LeftOut left_out,
                              const std::optional<RelativeTable>& bias = {}) {
  Attentions attentions{.sequences = {std::move(tokens)},
                        .sites = {{.name = "attention",
                                   .before = "layers.",
                                   .after = ".",
                                   .layers = config.layers,
                                   .heads = config.heads,
                                   .model_dim = config.model_dim,
                                   .bias = bias}},
                        .left_out = std::move(left_out)};
  check_left_out(attentions, attentions.left_out);
  return attentions;
}

}  // namespace qkv::inline explaining
