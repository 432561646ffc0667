// The folder of a recurrent encoder-decoder: its config and weights, in and out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/folder_tensors.h"
#include "qkv/models/seq2seq.h"

namespace qkv::inline models {

// What Seq2Seq::load() and check() read: everything but the weights' elements is checked when it is made.
class Seq2SeqFolder {
 public:
  explicit Seq2SeqFolder(const std::string& folder);

  const Seq2SeqConfig& config() const { return config_; }
  // Under our names; the folder must outlive them.
  Weights weights(WeightStorage storage) { return tensors_.weights(storage); }

 private:
  Seq2SeqConfig config_;
  FolderTensors tensors_;
};

// As Seq2Seq::save().
void write_seq2seq_folder(const std::string& folder, const Seq2Seq& model, Dtype dtype);

// The kinds and cells under their names in configs.
const std::vector<std::pair<std::string, Seq2SeqKind>>& seq2seq_kinds();
const std::vector<std::pair<std::string, RecurrentCell>>& recurrent_cells();

}  // namespace qkv::inline models
