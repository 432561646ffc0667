/// \file
/// Training from files, for every kind of config.
#pragma once

#include <string>

#include "qkv/api.h"
#include "qkv/train/train_translator.h"

namespace qkv {

enum class TrainedKind {
  translator,  ///< train_translator.h
  pictures,    ///< train_classifier.h: the config has "pictures"
  language,    ///< train_language.h: its "kind" is "language"
  classes,     ///< train_text.h: of texts
  pairs,       ///< train_text.h: of pairs of texts
  tokens,      ///< train_text.h: of words
  masked,      ///< train_text.h: words that are hidden
  contrast,    ///< train_text.h: train_sentences()
};

/// FormatError or IoError if the config cannot be read.
QKV_API TrainedKind trained_kind(const std::string& config);

/// Trains the config's kind from the files that it uses.
QKV_API TrainingResult train_files(const TrainTranslatorFiles& files, const TrainingOptions& options = {});

}  // namespace qkv
