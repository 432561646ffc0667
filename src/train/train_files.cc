// Tells the configs of trainings apart, and trains what they say.
#include "qkv/train/train_files.h"

#include "io/json/json_document.h"
#include "qkv/train/train_classifier.h"
#include "qkv/train/train_language.h"

namespace qkv {

TrainedKind trained_kind(const std::string& config) {
  const io::JsonDocument document = io::JsonDocument::of_config(config);
  const io::JsonValue root = document.root();
  if (root.find("pictures")) return TrainedKind::pictures;
  return root.find("kind") ? TrainedKind::language : TrainedKind::translator;
}

TrainingResult train_files(const TrainTranslatorFiles& files, const TrainingOptions& options) {
  switch (trained_kind(files.config)) {
    case TrainedKind::pictures:
      return train_classifier({.config = files.config, .train = files.train, .valid = files.valid, .out = files.out},
                              options);
    case TrainedKind::language:
      return train_language({.config = files.config,
                             .train = files.train,
                             .valid = files.valid,
                             .tokenizer = files.tokenizer,
                             .from = files.from,
                             .out = files.out,
                             .lines = files.lines},
                            options);
    case TrainedKind::translator:
      break;
  }
  return train_translator(files, options);
}

}  // namespace qkv
