/// \file
/// Weights laid out for this CPU once, in a file beside the model.
///
///     pack_folder("models/smollm2", WeightStorage::bf16);   // models/smollm2/panels-bf16.safetensors
#pragma once

#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/matmul.h"

namespace qkv {

/// Writes what a model packs of its weights when it is opened in this storage, on the selected target: every load() of
/// that storage and target then maps the file instead, in a fraction of the time, and processes share its memory.
/// Results keep their bits. Files that were there are replaced whole. Returns the paths: of the folder, and of folders
/// in it that hold weights of their own. A file that no longer fits the weights (by their names, sizes and times) or
/// the target is not used. Errors as of load(); std::invalid_argument for q8 and q4, which files keep as they are;
/// IoError.
QKV_API std::vector<std::string> pack_folder(const std::string& folder, WeightStorage storage = WeightStorage::full);

}  // namespace qkv
