// Opens encoder-decoders of any kind.
#include "qkv/models/encoder_decoder.h"

#include <algorithm>

#include "models/model_kinds.h"
#include "qkv/models/transformer_encoder_decoder.h"

namespace qkv {
namespace {

// The entry of the folder's model_type; nullptr: there is none.
const ModelKind* kind_in(const ModelConfig& json) {
  const auto type = json.find("model_type");
  if (!type) return nullptr;
  const auto found = std::ranges::find(model_kinds(), type->string(), &ModelKind::type);
  return found == model_kinds().end() ? nullptr : &*found;
}

const AddedFamily* added_family(const std::string& folder) {
  const ModelKind* kind = kind_in(ModelConfig(folder));
  return kind != nullptr ? kind->as<AddedFamily>() : nullptr;
}

}  // namespace

bool EncoderDecoder::is_in(const std::string& folder) {
  const ModelConfig json(folder);
  if (json.flag("is_encoder_decoder", false)) return true;
  const ModelKind* kind = kind_in(json);
  return kind != nullptr && (kind->as<EncoderDecoderKind>() != nullptr || kind->as<AddedFamily>() != nullptr);
}

std::unique_ptr<EncoderDecoder> EncoderDecoder::load(const std::string& folder, WeightStorage storage) {
  if (const AddedFamily* added = added_family(folder)) return added->load(folder, storage);
  return std::make_unique<TransformerEncoderDecoder>(TransformerEncoderDecoder::load(folder, storage));
}

EncoderDecoderTokens EncoderDecoder::check(const std::string& folder) {
  if (const AddedFamily* added = added_family(folder)) return added->check(folder);
  return TransformerEncoderDecoder::check(folder).tokens();
}

}  // namespace qkv
