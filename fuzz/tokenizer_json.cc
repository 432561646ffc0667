// Any bytes as a tokenizer.json.
#include "qkv/text/tokenizer.h"
#include "reader.h"

void read(std::string_view bytes) {
  const qkv::Encoding encoding = qkv::Tokenizer::parse(bytes, "fuzz").encode("The [MASK] caf\xC3\xA9.");
  if (encoding.ids.size() != encoding.offsets.size()) __builtin_trap();
}
