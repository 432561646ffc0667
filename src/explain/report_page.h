// The page of a report, and bytes as it holds them: made smaller, and as letters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace qkv::inline explaining {

// web/dist/page.html, as it was when the library was built. It has the marks <!--qkv:title-->, <!--qkv:report--> and
// <!--qkv:data--> once each.
std::string_view report_page();

// As RFC 1950 has it, what DecompressionStream("deflate") of a browser reads. Never more than bytes.size() / 2^11 + 16
// bytes longer.
std::string deflated(std::string_view bytes);

// RFC 4648, section 4.
void append_base64(std::string& text, std::string_view bytes);

constexpr std::size_t base64_size(std::size_t bytes) { return (bytes + 2) / 3 * 4; }

// Five letters for four bytes (base64 has five and a third): those of Z85 (https://rfc.zeromq.org/spec/32), but a comma
// for "<", which would end a page's element. As in Ascii85, the last 1 to 3 bytes are one letter more than bytes.
void append_base85(std::string& text, std::string_view bytes);

}  // namespace qkv::inline explaining
