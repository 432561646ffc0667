// The settings of a generation_config.json, and what reading one does with each.
#pragma once

#include <span>

#include "io/json/json_document.h"

namespace qkv::inline pipelines {

enum class KeyAnswer {
  obeyed,    // read_generation() reads it
  harmless,  // no value of it changes what is generated
  refused,   // unless it has the value at which it does nothing
  sampled,   // of language models, for which read_text_generation() reads it; to others harmless
  drawn,     // the same, but that others refuse it
};

struct GenerationKey {
  const char* name;
  KeyAnswer answer;
  const char* off = "null";  // of refused and drawn ones, as JSON: the other value that does nothing
};

// The keys of transformers' GenerationConfig, and our own.
std::span<const GenerationKey> generation_keys();

// Who generates.
enum class GeneratingModel { encoder_decoder, language };

// FormatError, naming the key, for the first one that would change the text and is not supported.
void refuse_generation_keys(const io::JsonValue& config, GeneratingModel model);

}  // namespace qkv::inline pipelines
