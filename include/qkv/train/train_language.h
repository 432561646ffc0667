/// \file
/// Trains a language model on texts: tokenizer, decoder-only model and training, into a folder.
#pragma once

#include <string>

#include "qkv/api.h"
#include "qkv/text_lines.h"
#include "qkv/train/training.h"

namespace qkv {

struct TrainLanguageFiles {
  std::string config{};     ///< as src/train/config/language_config.h says
  std::string train{};      ///< texts: documents with a blank line between them
  std::string valid{};      ///< texts
  std::string tokenizer{};  ///< a tokenizer.json; none: one is learned from `train`, or was already
  std::string from{};       ///< folder of a model to start from, its tokenizer.json included; none: random weights
  std::string out{};        ///< the folder, which is made if it is not there
  TextLineOptions lines{};  ///< how both files of texts are read
};

/// Each document is a sequence of its own: the end token, its tokens, the end token; none sees another, and nothing is
/// padded. Those too long for the model are refused or cut, as the config says. The validation measures bits per byte,
/// too, as Generator::score does: in windows, without the end token behind a text. The folder gets what train() writes,
/// and from the first validation on a model that Generator and transformers open: what LanguageModel::save writes,
/// tokenizer.json and tokenizer_config.json. Errors: as from train(); FormatError for malformed files, a tokenizer
/// without "</s>" and "<pad>", and a model to start from that is not the one of the config; std::invalid_argument if
/// the folder has a model but no checkpoints.
QKV_API TrainingResult train_language(const TrainLanguageFiles& files, const TrainingOptions& options = {});

}  // namespace qkv
