// The kinds of models by the model_type of their config.json, all in one list.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/files/text.h"
#include "models/model_config.h"
#include "qkv/models/encoder_decoder.h"

namespace qkv::inline models {

// Kinds that open as a TextEncoder, a TransformerEncoderDecoder, a Vit or a LanguageModel; the folder of each has its
// header.
struct EncoderKind;
struct EncoderDecoderKind;
struct PictureKind;
struct LanguageKind;
extern const EncoderKind kBert, kRoberta, kDistilBert, kMpnet, kModernBert, kAlbert;
extern const EncoderDecoderKind kMarian, kBart, kMBart, kOwn;
extern const PictureKind kVit, kDinov2;
extern const LanguageKind kGpt2, kGptNeox, kLlama, kMistral, kPhi3, kQwen2, kQwen3, kGemma2, kGemma3;

// Encoder-decoders that the library does not hold: how what add_kind() has added opens.
struct AddedFamily {
  std::unique_ptr<EncoderDecoder> (*load)(const std::string& folder, WeightStorage storage);
  EncoderDecoderTokens (*check)(const std::string& folder);
};

struct ModelKind {
  const char* type;  // model_type
  std::variant<const EncoderKind*, const EncoderDecoderKind*, const PictureKind*, const LanguageKind*,
               const AddedFamily*>
      family;

  template <class Family>
  const Family* as() const {
    const auto* found = std::get_if<const Family*>(&family);
    return found != nullptr ? *found : nullptr;
  }
};

std::span<const ModelKind> model_kinds();
// Once for a type: what is there already stays. Not while another thread opens models.
void add_kind(const ModelKind& kind);

// The list's entry of this kind. FormatError, naming those of that family, unless it is one; they are `name`.
template <class Family>
const Family& family_of_kind(const io::JsonValue& type, std::string_view name) {
  std::vector<std::string> known;
  for (const ModelKind& kind : model_kinds()) {
    const Family* family = kind.as<Family>();
    if (family == nullptr) continue;
    if (type.string() == kind.type) return *family;
    known.push_back(kind.type);
  }
  type.refuse(fmt::format("is {}; the supported {} are {}", io::quote(type.string()), name, quoted_list(known, "and")));
}

}  // namespace qkv::inline models
