/// \file
/// Predicts the masked words of a text. Reads the folders of transformers' ForMaskedLM with a tokenizer.json.
///
///     FillMask model = FillMask::load("folder");
///     model.fill("Paris is the [MASK] of France.")[0][0].label;   // the most probable word
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/pipelines/text_pipeline.h"

namespace qkv {

/// Safe for concurrent calls.
class QKV_API FillMask : public TextPipeline {
 public:
  /// `folder` holds what TextModel::load reads, and tokenizer.json. FormatError as from there, and for a tokenizer
  /// without a special token [MASK] or `<mask>`. `storage` as in weights.h.
  static FillMask load(const std::string& folder, WeightStorage storage = WeightStorage::full);

  /// The `top` most probable words for each mask of the text, in decreasing order, as the tokenizer decodes them alone.
  /// Softmax over all words. std::invalid_argument for a text without a mask or with more tokens than the model has
  /// positions, and if `top` is below 1.
  std::vector<std::vector<ClassProbability>> fill(const std::string& text, std::int64_t top = 5,
                                                  const TextEncoderOptions& options = {}) const;

  const std::string& mask() const { return mask_; }
  /// As fill() calls them, by their ids; empty: the tokenizer lacks it.
  const std::vector<std::string>& words() const { return words_; }

 private:
  FillMask(TextPipeline opened, std::string mask);

  std::string mask_;
  std::vector<std::string> words_;
};

}  // namespace qkv
