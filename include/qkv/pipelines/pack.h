/// \file
/// Packs weights for this CPU once, into a file in the model's folder.
///
///     pack_folder("models/smollm2", WeightStorage::bf16);   // models/smollm2/panels-bf16.safetensors
#pragma once

#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/matmul.h"

namespace qkv {

/// Writes the packed weights of a model in this storage, for the selected target: every load() with that storage and
/// target then maps the file instead of packing, in a fraction of the time, and processes share its memory. Results
/// keep their bits. Existing files are replaced atomically. Returns the paths: of the folder, and of folders in it that
/// hold weights of their own. A file that no longer fits the weights (by their names, sizes and times) or the target is
/// not used. Errors as of load(); std::invalid_argument for q8 and q4, which files keep as they are; IoError.
QKV_API std::vector<std::string> pack_folder(const std::string& folder, WeightStorage storage = WeightStorage::full);

}  // namespace qkv
