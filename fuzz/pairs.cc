// Any bytes as pairs of texts: no side is empty or has a tab or the end of a line in it.
#include "qkv/files.h"
#include "reader.h"

void read(std::string_view bytes) {
  for (const qkv::TextPair& pair : qkv::read_pairs(qkv::fuzz::folder_with("pairs.tsv", bytes) + "/pairs.tsv")) {
    for (const std::string& side : {pair.source, pair.target}) {
      if (side.empty() || side.find_first_of("\t\n") != std::string::npos) __builtin_trap();
    }
  }
}
