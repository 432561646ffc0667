// Opens encoder-decoders of any kind.
#include "qkv/models/encoder_decoder.h"

#include <algorithm>

#include "models/model_kinds.h"
#include "qkv/models/marian.h"
#include "qkv/models/seq2seq.h"

namespace qkv {
namespace {

// The entry of the folder's model_type; nullptr: there is none.
const ModelKind* kind_in(const ModelConfig& json) {
  const auto type = json.find("model_type");
  if (!type) return nullptr;
  const auto found = std::ranges::find(model_kinds(), type->string(), &ModelKind::type);
  return found == model_kinds().end() ? nullptr : &*found;
}

bool is_seq2seq(const std::string& folder) {
  const ModelKind* kind = kind_in(ModelConfig(folder));
  return kind != nullptr && kind->seq2seq != nullptr;
}

}  // namespace

bool EncoderDecoder::is_in(const std::string& folder) {
  const ModelConfig json(folder);
  if (json.flag("is_encoder_decoder", false)) return true;
  const ModelKind* kind = kind_in(json);
  return kind != nullptr && (kind->marian != nullptr || kind->seq2seq != nullptr);
}

std::unique_ptr<EncoderDecoder> EncoderDecoder::load(const std::string& folder, WeightStorage storage) {
  if (is_seq2seq(folder)) return std::make_unique<Seq2Seq>(Seq2Seq::load(folder, storage));
  return std::make_unique<Marian>(Marian::load(folder, storage));
}

EncoderDecoderTokens EncoderDecoder::check(const std::string& folder) {
  return is_seq2seq(folder) ? Seq2Seq::check(folder).tokens() : Marian::check(folder).tokens();
}

}  // namespace qkv
