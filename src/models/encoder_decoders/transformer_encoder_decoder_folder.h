// The folder of a TransformerEncoderDecoder: its config (of the model types of transformers, and ours for what none of
// its classes can be), the names of its tensors, and its weights, in and out.
#pragma once

#include <optional>
#include <string>

#include "models/folder_tensors.h"
#include "models/tensor_names.h"
#include "qkv/models/transformer_encoder_decoder.h"

namespace qkv::inline models {

// As TransformerEncoderDecoder::read_config and transformers_class.
TransformerEncoderDecoderConfig read_folder_config(const std::string& folder);
std::string transformers_class_of(const TransformerEncoderDecoderConfig& config);

// The text of config.json.
std::string folder_config_json(const TransformerEncoderDecoderConfig& config, Dtype dtype);

// Tokens that cannot be generated.
std::optional<std::int32_t> excluded(const TransformerEncoderDecoderConfig& config);

// Whether positions are sinusoids, which follow from the config, or each side has a table of them.
bool has_sinusoids(const TransformerEncoderDecoderConfig& config);
bool has_position_tables(const TransformerEncoderDecoderConfig& config);

// The folder that TransformerEncoderDecoder::load() and check() read: everything but the weights' elements is checked
// when it is made.
class TransformerEncoderDecoderFolder {
 public:
  explicit TransformerEncoderDecoderFolder(const std::string& folder);

  const TransformerEncoderDecoderConfig& config() const { return config_; }
  // Under our names; the folder must outlive them.
  Weights weights(WeightStorage storage);

 private:
  TransformerEncoderDecoderConfig config_;
  FolderTensors tensors_;
};

// As TransformerEncoderDecoder::save().
void write_folder(const std::string& folder, const TransformerEncoderDecoder& model, Dtype dtype);

// Names of the folder begin with `prefix`; a bare model has none, and no bias of the logits.
TensorNames names_of(const TransformerEncoderDecoderConfig& config, const std::string& prefix = "model.");

inline constexpr const char* kShared = "shared.";
// Scopes of our own on each side: of a table of its own, and of a bart.
inline constexpr const char* kTable = "embed_tokens.";
inline constexpr const char* kPositions = "embed_positions.";
inline constexpr const char* kEmbeddingNorm = "embedding_norm.";
inline constexpr std::int32_t kReservedPositions = 2;  // rows of its tables of positions before that of position 0

inline constexpr const char* kLogitsBias = "final_logits_bias";  // a row there, a vector here

}  // namespace qkv::inline models
