/// \file
/// Trains a Vision Transformer on labelled pictures, and writes a folder that classifies.
#pragma once

#include <string>

#include "qkv/api.h"
#include "qkv/train/training.h"

namespace qkv {

struct TrainClassifierFiles {
  std::string config{};  ///< as src/train/classifier_config.h says
  std::string
      train{};  ///< a folder with a folder of PNG and JPEG files for each class, or CSV: label, then gray pixels
  std::string valid{};  ///< the same, of the same classes
  std::string out{};    ///< the folder, which is made if it is not there
};

/// The data are checked before anything is written. Of two validations the better one has more pictures right. The
/// folder gets what train() writes, and from the first validation on a model that transformers opens: at each best
/// validation, and in the end, what Vit::save writes, and preprocessor_config.json. Memory: 12 bytes for each pixel
/// that the model reads, of all pictures together, besides model and training. Errors: as from train(); FormatError for
/// malformed files and classes without pictures; std::invalid_argument if the folder has a model but no checkpoints.
QKV_API TrainingResult train_classifier(const TrainClassifierFiles& files, const TrainingOptions& options = {});

}  // namespace qkv
