/// \file
/// Trains a translator on pairs of sentences: tokenizer, encoder-decoder and training, into a folder.
#pragma once

#include <string>

#include "qkv/api.h"
#include "qkv/text_lines.h"
#include "qkv/train/training.h"

namespace qkv {

/// What to do with lines that are not pairs, or whose texts hold special tokens.
enum class BadLines { refuse, leave_out };

struct TrainTranslatorFiles {
  std::string config{};     ///< as src/train/train_config.h says
  std::string train{};      ///< pairs (files.h)
  std::string valid{};      ///< pairs
  std::string tokenizer{};  ///< a tokenizer.json; none: one is learned from both sides of `train`, or was already
  std::string
      target_tokenizer{};  ///< the same of the target side, where the config asks for a vocabulary for each side
  std::string from{};      ///< folder of a model to start from, its tokenizer.json included; none: random weights
  std::string out{};       ///< the folder, which is made if it is not there
  BadLines bad_lines = BadLines::refuse;
  TextLineOptions lines{};  ///< how both files of pairs are read
};

/// The data are checked before anything is written: of bad lines the first is named, or they are left out and counted.
/// Pairs with a side of too many tokens are left out or truncated, as the config says. The observer gets a notice of
/// these, and of pairs that are in both files. The folder gets what train() writes, and from the first validation on a
/// model that transformers opens: at each best validation, and in the end, what EncoderDecoder::save writes,
/// tokenizer.json and tokenizer_config.json. Errors: as from train(); FormatError for malformed files, a tokenizer
/// without "</s>" and "<pad>", the last one, and a model to start from that is not the one of the config;
/// std::invalid_argument if the folder has a model but no checkpoints.
QKV_API TrainingResult train_translator(const TrainTranslatorFiles& files, const TrainingOptions& options = {});

}  // namespace qkv
