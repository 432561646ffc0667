// Makes recurrent encoder-decoders known to the library: their folders open as any translator's, and configs whose
// "model" has "attention" train them.
#pragma once

#include "train/config/train_config.h"

namespace qkv {

const training::TrainedFamily& recurrent_family();

// Before the first folder is opened.
void add_recurrent_family();

}  // namespace qkv
