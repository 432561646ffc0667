/// \file
/// Models by name: a folder, or a model of the Hugging Face hub that was fetched before.
#pragma once

#include <string>

#include "qkv/api.h"

namespace qkv {

/// The folder of a model. `name` itself if it is there, or is not of the form ORG/NAME; else the snapshot of that model
/// in the local cache of the hub, never the network: the commit in models--ORG--NAME/refs/main of HF_HUB_CACHE, else
/// HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub. IoError, naming the place, if there
/// is neither; FormatError if refs/main names no commit.
QKV_API std::string find_model(const std::string& name);
// The same for a language model, which may be a file of which the name ends with ".gguf".
QKV_API std::string find_language_model(const std::string& name);

}  // namespace qkv
