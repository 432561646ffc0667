// Bytes as letters, five for four bytes (base64 has five and a third): for the files that a page holds.
#pragma once

#include <string>
#include <string_view>

namespace qkv::inline explaining {

// The letters of Z85 (https://rfc.zeromq.org/spec/32), but a comma for "<", which would end a page's element. As in
// Ascii85, the last 1 to 3 bytes are one letter more than bytes.
void append_base85(std::string& text, std::string_view bytes);

}  // namespace qkv::inline explaining
