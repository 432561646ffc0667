// Checks that a training overwrites nothing but what belongs to it.
#include "train/out_folder.h"

#include <filesystem>

#include "core/refuse.h"
#include "train/checkpoints.h"

namespace qkv::training {

void expect_own_files(const std::string& out, std::initializer_list<const char*> names,
                      const std::function<bool(const std::string& path)>& is_input) {
  if (Checkpoints::exist(out + "/checkpoints")) return;
  for (const char* name : names) {
    const std::string path = out + "/" + name;
    if (!std::filesystem::exists(path) || (is_input && is_input(path))) continue;
    refuse(path,
           "already exists, and the folder has no checkpoints to resume from; train into another folder, or remove it");
  }
}

}  // namespace qkv::training
