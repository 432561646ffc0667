// Any bytes as the manifest of a checkpoint.
#include "io/atomic_folder.h"
#include "qkv/error.h"
#include "reader.h"

void read(std::string_view bytes) {
  qkv::fuzz::folder_with("state.json", "{}");
  try {
    qkv::io::verify_folder(qkv::fuzz::folder_with("manifest.json", bytes));
  } catch (const qkv::IoError&) {  // a file that is not there
  }
}
