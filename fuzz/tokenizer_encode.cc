// Any bytes as text: tokens inside of the text, cutting off gives the beginning of the whole, and decoded piece by
// piece they are what they are decoded together.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "qkv/text/tokenizer.h"

namespace {

const qkv::Tokenizer& tokenizer() {
  static const qkv::Tokenizer loaded = qkv::Tokenizer::load(QKV_FUZZ_TOKENIZER);
  return loaded;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const qkv::Encoding whole = tokenizer().encode(text, {.add_special_tokens = false});
  for (const qkv::TextSpan span : whole.offsets) {
    if (span.end < span.begin || span.end > size) __builtin_trap();
  }
  const std::size_t length = size % 8 + 1;
  const qkv::Encoding cut = tokenizer().encode(text, {.max_length = length, .add_special_tokens = false});
  if (cut.ids.size() != std::min(length, whole.ids.size())) __builtin_trap();
  if (!std::equal(cut.ids.begin(), cut.ids.end(), whole.ids.begin())) __builtin_trap();
  qkv::DecodeStream stream(tokenizer());
  std::string pieces;
  for (const std::int32_t id : whole.ids) pieces += stream.put(id);
  const std::string decoded = tokenizer().decode(whole.ids);
  const bool broken = decoded.find("\xEF\xBF\xBD") != std::string::npos;  // byte fallback may take back what it gave
  if (pieces + stream.finish() != decoded && !broken) __builtin_trap();
  return 0;
}
