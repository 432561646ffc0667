// The folder of a Vision Transformer: its config and weights, in and out.
#pragma once

#include <string>

#include "models/folder_tensors.h"
#include "qkv/models/vit.h"

namespace qkv::inline models {

// As Vit::is_in() and Vit::read_config().
bool is_vit_folder(const std::string& folder);
VitConfig read_vit_config(const std::string& folder);

// What Vit::load() and check() read: everything but the weights' elements is checked when it is made.
class VitFolder {
 public:
  explicit VitFolder(const std::string& folder);

  // Without labels if the folder has no classifier.
  const VitConfig& config() const { return config_; }
  // Under our names; the folder must outlive them.
  Weights weights() { return tensors_.weights(); }

 private:
  VitConfig config_;
  FolderTensors tensors_;
};

// As Vit::save().
void write_vit_folder(const std::string& folder, const Vit& model, Dtype dtype);

}  // namespace qkv::inline models
