// Every key of a translator's training, once: the reader (train_config.h), `qkv train --help` and docs/training.md go
// by this table.
#pragma once

#include <vector>

#include "train/config_keys.h"
#include "train/train_config.h"

namespace qkv::training {

using TrainKey = ConfigKey<TrainConfig>;

// In the order of the sections, and of importance.
const std::vector<TrainKey>& train_keys();
// Of a config whose model has "attention": a recurrent encoder-decoder.
const std::vector<TrainKey>& seq2seq_keys();

// The table as text for a terminal, and as a table of Markdown.
std::string train_keys_text();
std::string train_keys_markdown();
// Those of "model" that only such a config has.
std::string seq2seq_keys_markdown();

}  // namespace qkv::training
