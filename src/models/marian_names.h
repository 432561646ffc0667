// The tensors of a Marian model, under our names and those of its Hugging Face folder.
#pragma once

#include <string>

#include "models/tensor_names.h"
#include "qkv/models/marian.h"

namespace qkv::inline models {

// Names of the folder begin with `prefix`; a bare model has none, and no bias of the logits.
TensorNames marian_names(const MarianConfig& config, const std::string& prefix = "model.");

inline constexpr const char* kShared = "shared.";
// Scopes of our own on each side: of a table of its own, and of a bart.
inline constexpr const char* kTable = "embed_tokens.";
inline constexpr const char* kPositions = "embed_positions.";
inline constexpr const char* kEmbeddingNorm = "embedding_norm.";
inline constexpr std::int32_t kReservedPositions = 2;  // rows of its tables of positions before that of position 0

inline constexpr const char* kLogitsBias = "final_logits_bias";  // a row there, a vector here

}  // namespace qkv::inline models
