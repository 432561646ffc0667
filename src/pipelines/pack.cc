// pack_folder(): opens the model, and writes what it packed.
#include "qkv/pipelines/pack.h"

#include "models/panel_file.h"
#include "pipelines/with_folder.h"

namespace qkv {

std::vector<std::string> pack_folder(const std::string& folder, WeightStorage storage) {
  refuse_unless(block_bytes(storage) == 0, "pack", "q8 and q4 are kept as the file has them; pack another storage");
  const PackingScope packing;
  return with_folder(folder, storage, [&](const auto&) { return packing.write(); });
}

}  // namespace qkv
