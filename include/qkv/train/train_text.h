/// \file
/// Fine-tunes an encoder on labelled texts, into a folder that classifies texts or embeds them.
#pragma once

#include <string>

#include "qkv/api.h"
#include "qkv/text_lines.h"
#include "qkv/train/training.h"

namespace qkv {

struct TrainTextFiles {
  std::string config{};     ///< as src/train/config/text_config.h says
  std::string train{};      ///< texts or pairs of texts, each with its label
  std::string valid{};      ///< the same, with labels of `train`
  std::string from{};       ///< folder of an encoder that TextEncoder::load reads, with its tokenizer.json
  std::string out{};        ///< the folder, which is made if it is not there
  TextLineOptions lines{};  ///< how lines of both files are read
};

/// Fine-tunes the whole encoder and a head with the labels of `train`, sorted. A file is lines of columns with a tab
/// between them; or, if its name ends with ".csv", CSV whose header names the columns text, second (of pairs) and
/// label; or, with ".jsonl", an object with these members a line. Longer texts lose their ends, the longer of a pair
/// first, which is noticed. A config of the kind "tokens" trains on words: a word, a tab and its label a line, a blank
/// line between texts, or objects with lists `words` and `labels`; the first token of a word has its label. Of two
/// validations the better one has more labels right. The folder gets what train() writes, and from the first validation
/// on a model that TextClassifier and transformers open: what TextModel::save writes, and the tokenizer's files.
/// Errors: as from train(); FormatError for malformed files and labels that are not trained; std::invalid_argument
/// without `from`, and if the folder has a model but no checkpoints.
QKV_API TrainingResult train_text(const TrainTextFiles& files, const TrainingOptions& options = {});

/// Fine-tunes the encoder so that texts that belong together have vectors near to each other (sentence_encoder.h). The
/// files have two texts, `text` and `second`, and no label; the config is in src/train/config/sentence_config.h. The
/// better validation has more texts nearest to their partners within a batch. Embedder and sentence-transformers open
/// the folder. Otherwise as above.
QKV_API TrainingResult train_sentences(const TrainTextFiles& files, const TrainingOptions& options = {});

}  // namespace qkv
