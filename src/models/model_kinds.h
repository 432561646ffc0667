// The kinds of models by the model_type of their config.json, all in one list.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/text.h"
#include "models/encoder_kind.h"
#include "models/model_config.h"
#include "qkv/models/marian.h"
#include "qkv/models/vit.h"

namespace qkv::inline models {

// What transformers' class of a model_type can be; "": no class, its config.json has all that sets it apart.
struct MarianFamily {
  const char* architecture;
  MarianKind kind = MarianKind::marian;
  NormOrder norm_order = NormOrder::post;
  bool two_tables = false;  // each side may have a table of its own
};

// Recurrent encoder-decoders: config.json has all that sets them apart.
struct Seq2SeqFamily {};

struct VitFamily {
  VitKind kind;
  const char* model;       // transformers' class without a classifier
  const char* classifier;  // and with one
};

struct ModelKind {
  const char* type;                        // model_type
  const EncoderKind* encoder = nullptr;    // of what opens as a Bert
  const MarianFamily* marian = nullptr;    // of what opens as a Marian
  const VitFamily* vit = nullptr;          // of what opens as a Vit
  const Seq2SeqFamily* seq2seq = nullptr;  // of what opens as a Seq2Seq
};

std::span<const ModelKind> model_kinds();

// What the list has of this kind there. FormatError, naming those that have something, unless it has; they are `name`.
template <class Part>
const Part& part_of_kind(const io::JsonValue& type, const Part* ModelKind::* part, std::string_view name) {
  std::vector<std::string> known;
  for (const ModelKind& kind : model_kinds()) {
    if (kind.*part == nullptr) continue;
    if (type.string() == kind.type) return *(kind.*part);
    known.push_back(kind.type);
  }
  type.refuse(fmt::format("is {}; the supported {} are {}", io::quote(type.string()), name, quoted_list(known, "and")));
}

}  // namespace qkv::inline models
