// The folder of a Bert, of whichever kind of encoder: its config and weights.
#pragma once

#include <string>

#include "models/folder_tensors.h"
#include "qkv/models/bert.h"

namespace qkv::inline models {

// As Bert::read_config().
BertConfig read_bert_config(const std::string& folder);

// What Bert::load() and check() read: everything but the weights' elements is checked when it is made.
class BertFolder {
 public:
  explicit BertFolder(const std::string& folder);

  const BertConfig& config() const { return config_; }
  // Under our names; the folder must outlive them.
  Weights weights(WeightStorage storage) { return tensors_.weights(storage); }

 private:
  BertConfig config_;
  FolderTensors tensors_;
};

}  // namespace qkv::inline models
