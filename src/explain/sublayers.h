// What a run's sublayers pass on: shapes and lengths of their vectors.
#pragma once

#include <span>
#include <string_view>

#include "qkv/explain/explain_model.h"

namespace qkv::inline explaining {

// The part of a model whose output an observer receives under this name: "embedding", "positions", "attention",
// "feed_forward", "norm" or "recurrent"; "" for what is no vector for each token.
std::string_view part_of_model(std::string_view name);

// Adds an output, [tokens, size], of one of these sequences; nothing else.
void add_sublayer(std::vector<SublayerVectors>& sublayers, const std::vector<AttentionSequence>& sequences,
                  std::string_view name, const TensorView& value);

}  // namespace qkv::inline explaining
