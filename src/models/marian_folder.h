// The folder of a Marian model: its config and weights, in and out.
#pragma once

#include <string>

#include "models/folder_tensors.h"
#include "qkv/models/marian.h"

namespace qkv::inline models {

// What Marian::load() and check() read: everything but the weights' elements is checked when it is made.
class MarianFolder {
 public:
  explicit MarianFolder(const std::string& folder);

  const MarianConfig& config() const { return config_; }
  // Under our names; the folder must outlive them.
  Weights weights(WeightStorage storage);

 private:
  MarianConfig config_;
  FolderTensors tensors_;
};

// As Marian::save().
void write_marian_folder(const std::string& folder, const Marian& model, Dtype dtype);

}  // namespace qkv::inline models
