// What a model's folder holds, whatever it is.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "core/refuse.h"
#include "qkv/pipelines/embedder.h"
#include "qkv/pipelines/generator.h"
#include "qkv/pipelines/picture_classifier.h"
#include "qkv/pipelines/text_pipeline.h"
#include "qkv/pipelines/translator.h"

namespace qkv::inline pipelines {

// f(what fingerprint_of_folder() in qkv/pipelines/certify.h says).
template <class F>
auto with_folder(const std::string& folder, WeightStorage storage, const F& f) {
  if (EncoderDecoder::is_in(folder)) return f(Translator::load(folder, storage));
  if (LanguageModel::is_in(folder)) return f(Generator::load(folder, storage));
  if (TextPipeline::is_in(folder)) return f(TextPipeline::load(folder, *TextModel::task_in(folder), storage));
  if (!Vit::is_in(folder)) return f(Embedder::load(folder, storage));
  const bool kept = storage == WeightStorage::full || precision_of(storage) != Precision::exact;
  refuse_unless(kept, "fingerprint", "Vision Transformers keep weights as f32 alone, or for a reduced precision");
  Vit model = Vit::load(folder, storage);
  const bool classifies =
      !model.config().labels.empty() && std::filesystem::exists(folder + "/preprocessor_config.json");
  if (!classifies) return f(model);
  return f(PictureClassifier(ImageProcessor::load(folder), std::move(model)));
}

}  // namespace qkv::inline pipelines
