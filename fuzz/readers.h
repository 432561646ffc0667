// The fuzz targets that are readers: any bytes are read, or refused with a FormatError.
#pragma once

#include <span>
#include <string_view>

namespace qkv::fuzz {

struct Target {
  const char* name;
  void (*run)(std::string_view bytes);
  const char* corpus = nullptr;  // the folder of fuzz/corpus, unless it is called as the target
};

extern const std::span<const Target> kReaders;

// Those of tests/golden/tokenizer that any text is encoded by: one of each kind of vocabulary.
inline constexpr const char* kTokenizers[] = {
    "small",         "schemes/byte_level",    "schemes/metaspace", "schemes/suffix", "schemes/expression",
    "schemes/split", "schemes/unigram_bytes", "schemes/trained"};

}  // namespace qkv::fuzz
