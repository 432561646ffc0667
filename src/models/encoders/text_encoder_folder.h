// The folder of an encoder of texts: its kind, its tensors by the names of that kind, and those of one of its heads.
#pragma once

#include <optional>
#include <string>

#include "models/encoder_kind.h"
#include "models/folder_tensors.h"

namespace qkv::inline models {

// Where a head's tensors are among ours.
inline constexpr const char* kHeadScope = "head.";

// Everything but the weights' elements is checked when it is made.
class TextEncoderFolder {
 public:
  // With the head of a task, or without any.
  explicit TextEncoderFolder(const std::string& folder, std::optional<TextTask> task = {});

  static std::optional<TextTask> task_in(const std::string& folder);
  static TextEncoderConfig read_config(const std::string& folder);

  const TextEncoderConfig& config() const { return config_; }
  // Of a folder with a head.
  const HeadNames& head() const { return *head_; }
  const TextHeadConfig& head_config() const { return head_config_; }
  // Under our names; the folder must outlive them.
  Weights weights(WeightStorage storage) { return tensors_.weights(storage); }

 private:
  void expect(const EncoderKind& kind, bool tied);

  TextEncoderConfig config_;
  const HeadNames* head_ = nullptr;
  TextHeadConfig head_config_;
  FolderTensors tensors_;
};

}  // namespace qkv::inline models
