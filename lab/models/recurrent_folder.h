// The folder of a recurrent encoder-decoder: its config and weights, in and out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lab/models/recurrent_encoder_decoder.h"
#include "models/folder_tensors.h"

namespace qkv::inline models {

inline constexpr const char* kRecurrentType = "qkv-seq2seq";  // model_type of config.json

// The folder that RecurrentEncoderDecoder::load() and check() read: everything but the weights' elements is checked
// when it is made.
class RecurrentFolder {
 public:
  explicit RecurrentFolder(const std::string& folder);

  const RecurrentEncoderDecoderConfig& config() const { return config_; }
  // Under our names; the folder must outlive them.
  Weights weights(WeightStorage storage) { return tensors_.weights(storage); }

 private:
  RecurrentEncoderDecoderConfig config_;
  FolderTensors tensors_;
};

// As RecurrentEncoderDecoder::save().
void write_recurrent_folder(const std::string& folder, const RecurrentEncoderDecoder& model, Dtype dtype);

// The kinds and cells under their names in configs.
const std::vector<std::pair<std::string, RecurrentAttentionKind>>& recurrent_attention_kinds();
const std::vector<std::pair<std::string, RecurrentCell>>& recurrent_cells();

}  // namespace qkv::inline models
