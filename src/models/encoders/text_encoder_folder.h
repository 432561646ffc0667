// The folder of an encoder of texts: its kind, its tensors by the names of that kind, and those of one of its heads.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/encoders/encoder_kind.h"
#include "models/folder_tensors.h"
#include "qkv/models/sentence_encoder.h"

namespace qkv::inline models {

// Where a head's tensors are among ours.
inline constexpr const char* kHeadScope = "head.";

// Everything but the weights' elements is checked when it is made.
class TextEncoderFolder {
 public:
  // With the head of a task, or without any.
  explicit TextEncoderFolder(const std::string& folder, std::optional<TextTask> task = {});

  static std::optional<TextTask> task_in(const std::string& folder);
  // With a head that is to be trained: what the folder has of it, unless of other labels.
  TextEncoderFolder(const std::string& folder, const TextHeadConfig& trained);

  static TextEncoderConfig read_config(const std::string& folder);

  const TextEncoderConfig& config() const { return config_; }
  // For a folder with a head.
  const HeadNames& head() const { return *head_; }
  const TextHeadConfig& head_config() const { return head_config_; }
  bool tied() const { return tied_; }  // the output's weight is the table of words
  // Tensors of the head to train.
  const std::vector<TensorName>& missing() const { return missing_; }
  // Under our names; the folder must outlive them.
  Weights weights(WeightStorage storage) { return tensors_.weights(storage); }

 private:
  void set_head(const EncoderKind& kind, TextTask task, const ModelConfig& json);
  void expect(const EncoderKind& kind, bool tied, const std::function<bool(const TensorName&)>& is_missing);

  TextEncoderConfig config_;
  const HeadNames* head_ = nullptr;
  TextHeadConfig head_config_;
  bool tied_ = false;
  bool has_projection_ = false;  // ColBERT's, in addition to the encoder
  FolderTensors tensors_;
  std::vector<TensorName> missing_;
};

// The files of a model, whose config.json is that of `from` but for the head.
void write_text_folder(const std::string& folder, const std::string& from, const TextModel& model, Dtype dtype);

// The same without a head, and how its rows become vectors of length 1 of at most so many tokens.
void write_sentence_folder(const std::string& folder, const std::string& from, const SentenceEncoder& model,
                           SentencePooling pooling, std::int64_t max_length, Dtype dtype);

}  // namespace qkv::inline models
